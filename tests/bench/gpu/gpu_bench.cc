// Yardsticks, timing and batches.
#include "tests/bench/gpu/gpu_bench.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "backends/common/cache/cache_layout.h"

namespace longstream {
namespace {

constexpr int kRepetitions = 20;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "gpu_bench: %s: cuBLASLt status %d\n", what, static_cast<int>(status));
  std::exit(1);
}

// out [n, n] = a [n, n] b^T, all bf16, by the library's own choice of algorithm.
class SquareProduct {
 public:
  SquareProduct(uint64_t n, void* workspace, size_t workspace_bytes)
      : workspace_(workspace), workspace_bytes_(workspace_bytes) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    Check(cublasLtCreate(&handle_), "handle");
    Check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "operation");
    Check(cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof(transposed)),
          "operation");
    Check(cublasLtMatrixLayoutInit(&matrix_, CUDA_R_16BF, n, n, static_cast<int64_t>(n)), "matrix");
    cublasLtMatmulPreferenceOpaque_t preference;
    Check(cublasLtMatmulPreferenceInit(&preference), "preference");
    Check(
        cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)),
        "preference");
    int count = 0;
    Check(cublasLtMatmulAlgoGetHeuristic(handle_, &operation_, &matrix_, &matrix_, &matrix_,
                                         &matrix_, &preference, 1, &choice_, &count),
          "heuristic");
  }
  ~SquareProduct() { cublasLtDestroy(handle_); }
  SquareProduct(const SquareProduct&) = delete;
  SquareProduct& operator=(const SquareProduct&) = delete;

  void Run(cudaStream_t stream, const void* a, const void* b, void* out) {
    const float alpha = 1.0f;
    const float beta = 0.0f;
    Check(
        cublasLtMatmul(handle_, &operation_, &alpha, a, &matrix_, b, &matrix_, &beta, out, &matrix_,
                       out, &matrix_, &choice_.algo, workspace_, workspace_bytes_, stream),
        "product");
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t matrix_;
  cublasLtMatmulHeuristicResult_t choice_;
  void* workspace_;
  size_t workspace_bytes_;
};

// Bytes of an array, with the next one's alignment.
template <typename T>
size_t Padded(const std::vector<T>& values) {
  return (values.size() * sizeof(T) + 255) / 256 * 256;
}

}  // namespace

void GpuBench::FillRandom(DType type, void* data, int64_t count, float scale) {
  const Stream stream = device_.MakeStream(executor_, nullptr, 0);
  longstream::FillRandom(type, data, count, scale, next_seed_++,
                         static_cast<cudaStream_t>(stream.native));
  Check(cudaGetLastError(), "random numbers");
}

DeviceMemory GpuBench::Random(DType type, int64_t count, float scale) {
  DeviceMemory memory = Memory(static_cast<size_t>(count) * SizeOf(type));
  FillRandom(type, memory.data(), count, scale);
  return memory;
}

double GpuBench::MedianSeconds(Stream& stream, int count,
                               const std::function<void(Stream& stream, int i)>& run) {
  auto* const native = static_cast<cudaStream_t>(stream.native);
  std::vector<cudaEvent_t> events(static_cast<size_t>(count) + 1);
  for (cudaEvent_t& event : events) Check(cudaEventCreate(&event), "event");
  run(stream, 0);
  Check(cudaEventRecord(events[0], native), "event");
  for (int i = 0; i < count; ++i) {
    run(stream, i + 1);
    Check(cudaEventRecord(events[static_cast<size_t>(i) + 1], native), "event");
  }
  Check(cudaStreamSynchronize(native), "a benchmark");
  if (!stream.ok()) {
    std::fprintf(stderr, "gpu_bench: an op refused its arguments (status %d)\n",
                 static_cast<int>(stream.status));
    std::exit(1);
  }
  std::vector<float> milliseconds(static_cast<size_t>(count));
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    Check(cudaEventElapsedTime(&milliseconds[i], events[i], events[i + 1]), "event");
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  std::nth_element(milliseconds.begin(), milliseconds.begin() + count / 2, milliseconds.end());
  return 1e-3 * static_cast<double>(milliseconds[static_cast<size_t>(count / 2)]);
}

double GpuBench::MeasureCopy() {
  constexpr size_t kBytes = size_t{2} << 30;
  const DeviceMemory from = Random(DType::kF32, kBytes / sizeof(float));
  const DeviceMemory to = Memory(kBytes);
  Stream stream = device_.MakeStream(executor_, nullptr, 0);
  const double seconds = MedianSeconds(stream, kRepetitions, [&](Stream& on, int) {
    Check(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice,
                          static_cast<cudaStream_t>(on.native)),
          "copy");
  });
  return 2.0 * static_cast<double>(kBytes) / seconds;
}

double GpuBench::MeasureProduct() {
  constexpr int64_t kSize = 8192;
  constexpr size_t kWorkspace = size_t{64} << 20;
  const DeviceMemory a = Random(DType::kBF16, kSize * kSize);
  const DeviceMemory b = Random(DType::kBF16, kSize * kSize);
  const DeviceMemory out = Memory(kSize * kSize * sizeof(BF16));
  const DeviceMemory workspace = Memory(kWorkspace);
  SquareProduct product(kSize, workspace.data(), kWorkspace);
  Stream stream = device_.MakeStream(executor_, nullptr, 0);
  const double seconds = MedianSeconds(stream, kRepetitions, [&](Stream& on, int) {
    product.Run(static_cast<cudaStream_t>(on.native), a.data(), b.data(), out.data());
  });
  return 2.0 * kSize * kSize * kSize / seconds;
}

void GpuBench::MeasureYardsticks() {
  copy_bandwidth_ = MeasureCopy();
  product_rate_ = MeasureProduct();
  report_.Add({.name = "copy bandwidth", .value = copy_bandwidth_ / 1e9, .unit = "GB/s"});
  report_.Add({.name = "bf16 product 8192^3", .value = product_rate_ / 1e12, .unit = "TFLOP/s"});
}

GpuBatch::GpuBatch(Device& device, const std::vector<Sequence>& sequences) {
  std::vector<SequenceRows> rows;
  std::vector<int32_t> row_sequence;
  std::vector<int64_t> positions;
  std::vector<int32_t> pages;
  for (const Sequence& sequence : sequences) {
    SequenceRows next;
    next.first_row = static_cast<int32_t>(positions.size());
    next.num_rows = sequence.rows;
    next.first_position = sequence.context - sequence.rows;
    next.slot = static_cast<int32_t>(rows.size());
    next.page_offset = static_cast<int32_t>(pages.size());
    next.is_decode = sequence.is_decode ? 1 : 0;
    for (int32_t i = 0; i < sequence.rows; ++i) {
      row_sequence.push_back(next.slot);
      positions.push_back(next.first_position + i);
    }
    for (int64_t i = 0; i < PagesFor(sequence.context); ++i) {
      pages.push_back(static_cast<int32_t>(pages.size()));
    }
    rows.push_back(next);
    layout_.num_decode_rows += next.is_decode;
    max_position_ = std::max(max_position_, sequence.context - 1);
  }
  num_pages_ = static_cast<int64_t>(pages.size());
  memory_ = DeviceMemory(
      device, Padded(rows) + Padded(row_sequence) + Padded(positions) + Padded(pages), "a batch");
  size_t used = 0;
  const auto upload = [&]<typename T>(const std::vector<T>& values) {
    std::byte* const to = memory_.data() + used;
    device.Upload(to, values.data(), values.size() * sizeof(T));
    used += Padded(values);
    return reinterpret_cast<const T*>(to);
  };
  layout_.num_rows = static_cast<int32_t>(positions.size());
  layout_.num_sequences = static_cast<int32_t>(rows.size());
  layout_.sequences = upload(rows);
  layout_.row_sequence = upload(row_sequence);
  layout_.positions = upload(positions);
  layout_.page_tables = upload(pages);
  if (device.Synchronize() != OpStatus::kOk) Check(cudaErrorUnknown, "a batch");
}

}  // namespace longstream
