// The products of prefill rows by cuBLASLt.
//
// cuBLASLt is column-major: out^T [n, rows] = op_T(W^T [k, n]) rows^T [k, rows].
//
// One algorithm serves a shape of weight at every number of rows, so that a row's sums have the
// same bits in any batch. It is the first that the library's own heuristic names for a prefill
// piece (not the fastest of several timed here: timings vary, and a session that moves to another
// replica must find the same bits), without workspace, split of k or other reduction across blocks.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>

#include "kernels/cuda/prefill_product.h"

namespace longstream::cuda {
namespace {

// What the algorithm is chosen for, and at how many rows it must work as well.
constexpr int64_t kUsualRows = 512;
constexpr int64_t kOtherRows[] = {1, 2, 7, 16, 33, 64, 128, 257, 2048};
constexpr int kMaxCandidates = 32;
constexpr uint32_t kOperandAlignment = 16;  // of weights and prepared rows (weight.cuh)

bool Ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

struct Shape {
  int device = 0;
  int64_t n = 0;
  int64_t k = 0;               // with padding
  int64_t out_stride = 0;      // in elements
  uint32_t out_alignment = 0;  // in bytes, of every row of out

  auto operator<=>(const Shape&) const = default;
};

// The product's operands as cuBLASLt describes them, on the stack.
class Description {
 public:
  Description(const Shape& shape, int64_t num_rows) {
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

  bool ok() const { return ok_; }
  cublasLtMatmulDesc_t operation() { return &operation_; }
  cublasLtMatrixLayout_t weight() { return &weight_; }
  cublasLtMatrixLayout_t rows() { return &rows_; }
  cublasLtMatrixLayout_t out() { return &out_; }

 private:
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t weight_;
  cublasLtMatrixLayoutOpaque_t rows_;
  cublasLtMatrixLayoutOpaque_t out_;
  bool ok_ = false;
};

// A handle of the library. It belongs to the device that was current when it was made.
class Handle {
 public:
  Handle() {
    if (!Ok(cublasLtCreate(&handle_))) handle_ = nullptr;
  }
  ~Handle() {
    if (handle_ != nullptr) cublasLtDestroy(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cublasLtHandle_t get() const { return handle_; }  // nullptr: the library could not be initialised

 private:
  cublasLtHandle_t handle_ = nullptr;
};

template <typename T>
bool Set(cublasLtMatmulPreferenceOpaque_t* preference, cublasLtMatmulPreferenceAttributes_t name,
         T value) {
  return Ok(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)));
}

bool MakePreference(const Shape& shape, cublasLtMatmulPreferenceOpaque_t* preference) {
  return Ok(cublasLtMatmulPreferenceInit(preference)) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0}) &&
         Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kOperandAlignment) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kOperandAlignment) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment) &&
         Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment);
}

bool SumsInOneSequence(const cublasLtMatmulAlgo_t& algorithm) {
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
  int32_t splits = 0;
  size_t written = 0;
  return Ok(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                 &scheme, sizeof(scheme), &written)) &&
         Ok(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                 &splits, sizeof(splits), &written)) &&
         scheme == CUBLASLT_REDUCTION_SCHEME_NONE && splits <= 1;
}

bool WorksAt(cublasLtHandle_t handle, const Shape& shape, int64_t num_rows,
             const cublasLtMatmulAlgo_t& algorithm) {
  Description product(shape, num_rows);
  cublasLtMatmulHeuristicResult_t result{};
  return product.ok() &&
         Ok(cublasLtMatmulAlgoCheck(handle, product.operation(), product.weight(), product.rows(),
                                    product.out(), product.out(), &algorithm, &result)) &&
         result.workspaceSize == 0;
}

bool WorksAtOtherRows(cublasLtHandle_t handle, const Shape& shape,
                      const cublasLtMatmulAlgo_t& algorithm) {
  for (const int64_t num_rows : kOtherRows) {
    if (!WorksAt(handle, shape, num_rows, algorithm)) return false;
  }
  return true;
}

struct Choice {
  bool found = false;
  cublasLtMatmulAlgo_t algorithm{};
};

Choice Choose(cublasLtHandle_t handle, const Shape& shape) {
  Description product(shape, kUsualRows);
  cublasLtMatmulPreferenceOpaque_t preference;
  std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> candidates{};
  int count = 0;
  if (!product.ok() || !MakePreference(shape, &preference) ||
      !Ok(cublasLtMatmulAlgoGetHeuristic(handle, product.operation(), product.weight(),
                                         product.rows(), product.out(), product.out(), &preference,
                                         kMaxCandidates, candidates.data(), &count))) {
    return {};
  }
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& candidate = candidates[static_cast<size_t>(i)];
    if (Ok(candidate.state) && candidate.workspaceSize == 0 && SumsInOneSequence(candidate.algo) &&
        WorksAtOtherRows(handle, shape, candidate.algo)) {
      return {true, candidate.algo};
    }
  }
  return {};
}

// The handles and the algorithms chosen so far, of all devices. Thread-safe.
class Choices {
 public:
  struct Found {
    cublasLtHandle_t handle = nullptr;
    const Choice* choice = nullptr;  // lives as long as this
  };

  // REQUIRES: shape.device is current.
  Found Find(const Shape& shape) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Handle& handle = handles_[shape.device];
    if (handle.get() == nullptr) return {};
    auto [entry, is_new] = choices_.try_emplace(shape);
    if (is_new) entry->second = Choose(handle.get(), shape);
    return {handle.get(), &entry->second};
  }

 private:
  std::mutex mutex_;
  std::map<int, Handle> handles_;
  std::map<Shape, Choice> choices_;
};

// The largest power of two, up to 16, that divides the address of every row.
uint32_t AlignmentOf(const Matrix& out) {
  const auto bits = reinterpret_cast<uintptr_t>(out.data) |
                    static_cast<uintptr_t>(out.stride) * sizeof(float) | kOperandAlignment;
  return uint32_t{1} << std::countr_zero(bits);
}

}  // namespace

void PrefillProduct(Stream& stream, const PrefillProductArgs& args) {
  const int64_t num_rows = args.rows.num_rows - args.first_row;
  if (!stream.ok() || num_rows == 0) return;
  Shape shape = {.n = args.weight.n,
                 .k = args.rows.stride,
                 .out_stride = args.out.stride,
                 .out_alignment = AlignmentOf(args.out)};
  if (cudaGetDevice(&shape.device) != cudaSuccess) return stream.Fail(OpStatus::kDeviceError);
  static Choices choices;
  const Choices::Found found = choices.Find(shape);
  if (found.handle == nullptr) return stream.Fail(OpStatus::kDeviceError);
  if (!found.choice->found) return stream.Fail(OpStatus::kUnsupported);

  Description product(shape, num_rows);
  const auto* rows = static_cast<const BF16*>(args.rows.data) + args.first_row * args.rows.stride;
  float* out = args.out.f32_row(args.first_row);
  if (!product.ok() ||
      !Ok(cublasLtMatmul(found.handle, product.operation(), &args.alpha, args.weight.data,
                         product.weight(), rows, product.rows(), &args.beta, out, product.out(),
                         out, product.out(), &found.choice->algorithm, nullptr, 0,
                         static_cast<cudaStream_t>(stream.native)))) {
    stream.Fail(OpStatus::kDeviceError);
  }
}

}  // namespace longstream::cuda
