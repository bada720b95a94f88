// The algorithms of cuBLASLt: its heuristic proposes them; they are checked and timed here.
#include "kernels/cuda/cublaslt/cublaslt_algorithms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>

namespace longstream::cuda {
namespace {

constexpr int kTimings = 5;  // the result is the median of these; one run before them warms up
// More than the second-level cache of any GPU that is served. Writing that much empties the cache.
constexpr size_t kCacheFlushBytes = size_t{128} << 20;
// each byte of the rows of a timed product; as bf16, 0x3c3c is 0.0115
constexpr int kRowByte = 0x3c;

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

template <typename T>
bool Set(cublasLtMatmulPreferenceOpaque_t* preference, cublasLtMatmulPreferenceAttributes_t name,
         T value) {
  return Ok(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)));
}

bool MakePreference(const ProductShape& shape, cublasLtMatmulPreferenceOpaque_t* preference) {
  return Ok(cublasLtMatmulPreferenceInit(preference)) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0}) &&
         Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kOperandAlignment) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kOperandAlignment) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment);
}

size_t RowBytes(const ProductShape& shape, int64_t rows) {
  const auto bytes = static_cast<size_t>(rows * shape.k) * sizeof(uint16_t);
  return (bytes + 255) / 256 * 256;
}

}  // namespace

ProductDescription::ProductDescription(const ProductShape& shape, int64_t num_rows) {
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const auto n = static_cast<uint64_t>(shape.n);
  const auto k = static_cast<uint64_t>(shape.k);
  const auto rows = static_cast<uint64_t>(num_rows);
  ok_ = Ok(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
        Ok(cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                          sizeof(transposed))) &&
        Ok(cublasLtMatrixLayoutInit(&weight_, CUDA_R_16BF, k, n, shape.k)) &&
        Ok(cublasLtMatrixLayoutInit(&rows_, CUDA_R_16BF, k, rows, shape.k)) &&
        Ok(cublasLtMatrixLayoutInit(&out_, CUDA_R_32F, n, rows, shape.out_stride));
}

cublasLtMatmulAlgo_t ToCublasLt(const Algorithm& algorithm) {
  return std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
}

CublasLtAlgorithms::CublasLtAlgorithms(cublasLtHandle_t handle, const void* weight,
                                       cudaStream_t stream)
    : handle_(handle), weight_(weight), stream_(stream) {
  if (cudaEventCreate(&begin_) != cudaSuccess) begin_ = nullptr;
  if (cudaEventCreate(&end_) != cudaSuccess) end_ = nullptr;
}

CublasLtAlgorithms::~CublasLtAlgorithms() {
  cudaStreamSynchronize(stream_);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (memory_ != nullptr) cudaFree(memory_);
}

std::vector<Algorithm> CublasLtAlgorithms::Propose(const ProductShape& shape, int64_t rows,
                                                   size_t most) {
  ProductDescription product(shape, rows);
  cublasLtMatmulPreferenceOpaque_t preference;
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int count = 0;
  if (!product.ok() || !MakePreference(shape, &preference) ||
      !Ok(cublasLtMatmulAlgoGetHeuristic(handle_, product.operation(), product.weight(),
                                         product.rows(), product.out(), product.out(), &preference,
                                         static_cast<int>(most), results.data(), &count))) {
    return {};
  }
  results.resize(static_cast<size_t>(count));
  std::vector<Algorithm> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (Ok(result.state)) algorithms.push_back(std::bit_cast<Algorithm>(result.algo));
  }
  return algorithms;
}

bool CublasLtAlgorithms::SumsInOneSequence(const Algorithm& algorithm) {
  const cublasLtMatmulAlgo_t native = ToCublasLt(algorithm);
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
  int32_t splits = 0;
  size_t written = 0;
  return Ok(cublasLtMatmulAlgoConfigGetAttribute(&native, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                 &scheme, sizeof(scheme), &written)) &&
         Ok(cublasLtMatmulAlgoConfigGetAttribute(&native, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                 sizeof(splits), &written)) &&
         scheme == CUBLASLT_REDUCTION_SCHEME_NONE && splits <= 1;
}

bool CublasLtAlgorithms::Serves(const ProductShape& shape, int64_t rows,
                                const Algorithm& algorithm) {
  ProductDescription product(shape, rows);
  const cublasLtMatmulAlgo_t native = ToCublasLt(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  return product.ok() &&
         Ok(cublasLtMatmulAlgoCheck(handle_, product.operation(), product.weight(), product.rows(),
                                    product.out(), product.out(), &native, &result)) &&
         result.workspaceSize == 0;
}

bool CublasLtAlgorithms::Reserve(size_t size) {
  if (size <= memory_size_) return true;
  if (memory_ != nullptr) cudaFree(memory_);
  memory_ = nullptr;
  memory_size_ = 0;
  void* memory = nullptr;
  if (cudaMalloc(&memory, size) != cudaSuccess) {
    cudaGetLastError();  // clears the error, which the next launch would report again
    return false;
  }
  memory_ = static_cast<std::byte*>(memory);
  memory_size_ = size;
  return true;
}

float CublasLtAlgorithms::ColdMilliseconds(const ProductShape& shape, int64_t rows,
                                           const cublasLtMatmulAlgo_t& algorithm) {
  ProductDescription product(shape, rows);
  std::byte* out = memory_ + RowBytes(shape, rows);
  const float alpha = 1.0f;
  const float beta = 0.0f;
  float milliseconds = -1.0f;
  const bool done =
      product.ok() && cudaMemsetAsync(memory_, kRowByte, memory_size_, stream_) == cudaSuccess &&
      cudaEventRecord(begin_, stream_) == cudaSuccess &&
      Ok(cublasLtMatmul(handle_, product.operation(), &alpha, weight_, product.weight(), memory_,
                        product.rows(), &beta, out, product.out(), out, product.out(), &algorithm,
                        nullptr, 0, stream_)) &&
      cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
      cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
  return done ? milliseconds : -1.0f;
}

double CublasLtAlgorithms::Seconds(const ProductShape& shape, int64_t rows,
                                   const Algorithm& algorithm) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const size_t needed =
      RowBytes(shape, rows) + static_cast<size_t>(rows * shape.out_stride) * sizeof(float);
  if (begin_ == nullptr || end_ == nullptr || !Reserve(std::max(needed, kCacheFlushBytes))) {
    return kUnknown;
  }
  const cublasLtMatmulAlgo_t native = ToCublasLt(algorithm);
  std::array<float, kTimings> times;
  if (ColdMilliseconds(shape, rows, native) < 0) return kUnknown;
  for (float& time : times) {
    time = ColdMilliseconds(shape, rows, native);
    if (time < 0) return kUnknown;
  }
  std::nth_element(times.begin(), times.begin() + kTimings / 2, times.end());
  return 1e-3 * static_cast<double>(times[kTimings / 2]);
}

}  // namespace longstream::cuda
