// Products of prefill rows by cuBLASLt.
//
// One algorithm serves all weights of a shape at every number of rows, so a row's sums have the
// same bits in any batch. It is the fastest of those that the library proposes and that neither
// divide a sum nor need a workspace. It is measured once and stored (algorithm_file.h), because
// timings vary and a session that moves to another replica must find the same bits.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/cuda/cublaslt/algorithm_choice.h"
#include "kernels/cuda/cublaslt/algorithm_file.h"
#include "kernels/cuda/cublaslt/cublaslt_algorithms.h"
#include "kernels/cuda/gemm/prefill_product.h"

namespace longstream::cuda {
namespace {

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

// Writes a line in the format of the service's log (docs/configuration.md); kernels cannot call the
// log itself.
void Warn(const std::string& sentence) {
  std::string text = sentence;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '\'');
  std::fprintf(stderr,
               R"({"level":"warning","event":"cuda_algorithms","error":"%s"})"
               "\n",
               text.c_str());
}

std::string KeyOf(int device, const ProductShape& shape) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return "";
  return ChoiceKey(properties.name,
                   std::to_string(properties.major) + "." + std::to_string(properties.minor),
                   std::to_string(cublasLtGetVersion()), shape);
}

// The library handles and the algorithms chosen so far, of all devices. Thread-safe.
class Choices {
 public:
  struct Found {
    cublasLtHandle_t handle = nullptr;
    const std::optional<Algorithm>* algorithm = nullptr;  // lives as long as the Choices
  };

  // `weight` and `stream` are used for measurements. REQUIRES: `device` is current.
  Found Find(int device, const ProductShape& shape, const void* weight, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Handle& handle = handles_[device];
    if (handle.get() == nullptr) return {};
    auto [entry, is_new] = algorithms_.try_emplace({device, shape});
    if (is_new) {
      CublasLtAlgorithms source(handle.get(), weight, stream);
      const std::string key = KeyOf(device, shape);
      entry->second = StoredOrChosen(file_, key, source, shape);
      if (!entry->second.has_value()) {
        Warn("cuBLASLt has no algorithm for " + key +
             ", so these products run more slowly: " + WhyNoneServes(source, shape));
      }
    }
    return {handle.get(), &entry->second};
  }

 private:
  struct Key {
    int device = 0;
    ProductShape shape;
    auto operator<=>(const Key&) const = default;
  };

  std::mutex mutex_;
  AlgorithmFile file_{DefaultAlgorithmFile(), Warn};
  std::map<int, Handle> handles_;
  std::map<Key, std::optional<Algorithm>> algorithms_;
};

// The largest power of two, at most 16, that divides the address of every row.
uint32_t AlignmentOf(const Matrix& out) {
  const auto bits = reinterpret_cast<uintptr_t>(out.data) |
                    static_cast<uintptr_t>(out.stride) * sizeof(float) | kOperandAlignment;
  return uint32_t{1} << std::countr_zero(bits);
}

}  // namespace

bool PrefillProduct(Stream& stream, const PrefillProductArgs& args) {
  const int64_t num_rows = args.rows.num_rows - args.first_row;
  if (!stream.ok() || num_rows == 0) return true;
  auto* const native = static_cast<cudaStream_t>(stream.native);
  const ProductShape shape = {.n = args.weight.n,
                              .k = args.rows.stride,
                              .out_stride = args.out.stride,
                              .out_alignment = AlignmentOf(args.out)};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    stream.Fail(OpStatus::kDeviceError);
    return true;
  }
  static Choices choices;
  const Choices::Found found = choices.Find(device, shape, args.weight.data, native);
  if (found.handle == nullptr) {
    stream.Fail(OpStatus::kDeviceError);
    return true;
  }
  if (!found.algorithm->has_value()) return false;

  const cublasLtMatmulAlgo_t algorithm = ToCublasLt(**found.algorithm);
  for (int64_t done = 0; done < num_rows; done += kMostRows) {
    ProductDescription product(shape, std::min(num_rows - done, kMostRows));
    const int64_t first = args.first_row + done;
    const auto* rows = static_cast<const BF16*>(args.rows.data) + first * args.rows.stride;
    float* out = args.out.f32_row(first);
    if (!product.ok() ||
        !Ok(cublasLtMatmul(found.handle, product.operation(), &args.alpha, args.weight.data,
                           product.weight(), rows, product.rows(), &args.beta, out, product.out(),
                           out, product.out(), &algorithm, nullptr, 0, native))) {
      stream.Fail(OpStatus::kDeviceError);
      break;
    }
  }
  return true;
}

}  // namespace longstream::cuda
