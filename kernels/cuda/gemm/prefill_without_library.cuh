// Products of prefill rows without cuBLASLt: with f32 and f16 weights as tiled products, and with
// bf16 weights, if cuBLASLt has no algorithm for their shape, as GEMV, which reads the weights
// again for every 64 rows.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_PREFILL_WITHOUT_LIBRARY_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_PREFILL_WITHOUT_LIBRARY_CUH_

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/decode_product.cuh"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/tiled_product.cuh"

namespace longstream::cuda {

// `type` is the type of the weights: f32, f16 or bf16. `in` has prepared rows (PrepareRows).
template <int kWeights, typename Epilogue>
void PrefillWithoutLibrary(Stream& stream, DType type, const ProductOperands<kWeights>& in,
                           const Epilogue& epilogue) {
  if (type == DType::kBF16) return Gemv(stream, type, in, epilogue);
  TiledProduct(stream, type, in, epilogue);
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_PREFILL_WITHOUT_LIBRARY_CUH_
