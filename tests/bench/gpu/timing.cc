// Measures times by events of the GPU, and measures the yardsticks.
#include "tests/bench/timing.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <utility>

#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int kRepetitions = 20;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  FailBenchmark(std::string(what) + ": " + cudaGetErrorString(error));
}

void Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  FailBenchmark(std::string(what) + ": cuBLASLt status " + std::to_string(status));
}

// out [n, n] = a [n, n] b^T, all bf16; the library chooses the algorithm.
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

// Events in a row on a stream.
class Events {
 public:
  explicit Events(size_t count) : events_(count) {
    for (cudaEvent_t& event : events_) Check(cudaEventCreate(&event), "event");
  }
  ~Events() {
    for (cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void Record(size_t i, cudaStream_t stream) {
    Check(cudaEventRecord(events_[i], stream), "event");
  }
  // Seconds between events i and i + 1.
  double Seconds(size_t i) const {
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]), "event");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace

double GpuBench::MedianSeconds(size_t workspace_bytes, int count,
                               const std::function<void(Stream& stream, int i)>& run) {
  const DeviceMemory workspace = Memory(workspace_bytes);
  Stream stream = device_.MakeStream(executor_, workspace.data(), workspace.size());
  auto* const native = static_cast<cudaStream_t>(stream.native);
  Events events(static_cast<size_t>(count) + 1);
  run(stream, 0);
  events.Record(0, native);
  for (int i = 1; i <= count; ++i) {
    run(stream, i);
    events.Record(static_cast<size_t>(i), native);
  }
  if (!stream.ok()) {
    FailBenchmark("an op refused its arguments (status " +
                  std::to_string(static_cast<int>(stream.status)) + ")");
  }
  Check(cudaStreamSynchronize(native), "a benchmark");
  std::vector<double> seconds(static_cast<size_t>(count));
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] = events.Seconds(i);
  return Median(std::move(seconds));
}

double GpuBench::MeasureCopy() {
  constexpr size_t kBytes = size_t{2} << 30;
  const DeviceMemory from = Random(DType::kF32, kBytes / sizeof(float));
  const DeviceMemory to = Memory(kBytes);
  const double seconds = MedianSeconds(0, kRepetitions, [&](Stream& on, int) {
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
  const double seconds = MedianSeconds(0, kRepetitions, [&](Stream& on, int) {
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

}  // namespace longstream
