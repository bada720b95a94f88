// Replaces cuBLASLt: computes the products of prefill rows as plain sums.
#include "kernels/cuda/gemm/prefill_product.h"

#include "kernels/core/dtype.h"
#include "kernels/cuda/cublaslt/cublaslt_library.h"
#include "tests/simt/harness/runtime.h"

namespace longstream::cuda {
namespace {

void Multiply(const PrefillProductArgs& args) {
  const int64_t stride = args.rows.stride;
  const auto* rows = static_cast<const BF16*>(args.rows.data);
  const auto* weight = static_cast<const BF16*>(args.weight.data);
  for (int64_t r = args.first_row; r < args.rows.num_rows; ++r) {
    float* out = args.out.f32_row(r);
    for (int64_t c = 0; c < args.weight.n; ++c) {
      float sum = 0.0f;
      for (int64_t i = 0; i < stride; ++i) {
        sum += ToF32(rows[r * stride + i]) * ToF32(weight[c * stride + i]);
      }
      out[c] = args.alpha * sum + (args.beta == 0.0f ? 0.0f : args.beta * out[c]);
    }
  }
}

}  // namespace

bool PrefillProduct(Stream& stream, const PrefillProductArgs& args) {
  // On a GPU cuBLASLt has no algorithm for some shapes. Here it has none for these, so that tests
  // also run the products that replace it.
  if (args.weight.n % 4 == 3) return false;
  if (!stream.ok()) return true;
  simt::Enqueue(static_cast<cudaStream_t>(stream.native), {[args] { Multiply(args); }, {}});
  return true;
}

const std::string& LoadCublasLt() { return simt::TheMachine().cublaslt_problem; }

}  // namespace longstream::cuda
