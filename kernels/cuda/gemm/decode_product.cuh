// Chooses the kernel of a product by the type of its weights and its number of rows. Decode rows
// run here, and with int8 and int4 weights prefill rows too.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_DECODE_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_DECODE_PRODUCT_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/block_product.cuh"
#include "kernels/cuda/gemm/gemv.cuh"
#include "kernels/cuda/gemm/gemv_ring.cuh"
#include "kernels/cuda/gemm/product.cuh"

namespace longstream::cuda {

// The rounds that tiles take on the SMs of an H100 or H200, a block on each.
constexpr int64_t RoundsOfTiles(int64_t n, int64_t height, int64_t num_rows, int64_t tokens) {
  constexpr int64_t kSMs = 132;
  return CeilDiv(int64_t{CeilDiv(n, height)} * CeilDiv(num_rows, tokens), kSMs);
}

// Products of bf16 weights with more than 32 rows. A round of tiles of 64 x 64 takes 20 units of
// time; the other numbers are those of a round of the other kernels on an H100, within a tenth, for
// 2048 to 17408 inputs.
template <int kWeights, typename Epilogue>
void ManyRows(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  const int64_t n = kWeights * in.n, rows = in.num_rows;
  const int64_t of_ring = 11 * RoundsOfTiles(n, kOutputTile, rows, 64);
  const int64_t of_32 = 15 * RoundsOfTiles(n, Tile32x64::kRows, rows, 64);
  const int64_t of_64 = 20 * RoundsOfTiles(n, Tile64x64::kRows, rows, 64);
  const int64_t of_128 = 35 * RoundsOfTiles(n, Tile128x64::kRows, rows, 64);
  const int64_t least = std::min({of_ring, of_32, of_64, of_128});
  if (least == of_128) return LaunchBlockProduct<kWeights, Tile128x64>(stream, in, epilogue);
  if (least == of_64) return LaunchBlockProduct<kWeights, Tile64x64>(stream, in, epilogue);
  if (least == of_32) return LaunchBlockProduct<kWeights, Tile32x64>(stream, in, epilogue);
  LaunchGemvRing<kMaxTokenTiles>(stream, in, epilogue);
}

// Products of bf16 weights. All kernels give a row the same bits, so the choice only changes the
// speed.
template <int kWeights, typename Epilogue>
void ProductBF16(Stream& stream, const ProductOperands<kWeights>& in, const Epilogue& epilogue) {
  // With fewer tiles than this, half of the SMs would have none.
  constexpr int64_t kEnoughTiles = 64;
  if (in.num_rows <= kTokenTile) return LaunchGemvRing<1>(stream, in, epilogue);
  if (in.num_rows > Tile64x32::kTokens) return ManyRows(stream, in, epilogue);
  if (CeilDiv(kWeights * in.n, Tile64x32::kRows) >= kEnoughTiles) {
    return LaunchBlockProduct<kWeights, Tile64x32>(stream, in, epilogue);
  }
  if (in.num_rows <= 2 * kTokenTile) return LaunchGemvRing<2>(stream, in, epilogue);
  LaunchGemvRing<4>(stream, in, epilogue);
}

// Serves any number of rows. `type` is the type of the weights.
template <int kWeights, typename Epilogue>
void Gemv(Stream& stream, DType type, const ProductOperands<kWeights>& in,
          const Epilogue& epilogue) {
  if (in.num_rows == 0) return;
  switch (type) {
    case DType::kF32:
      return LaunchGemvFma<float>(stream, in, epilogue);
    case DType::kF16:
      return LaunchGemvFma<F16>(stream, in, epilogue);
    case DType::kI8:
      return LaunchGroups<DType::kI8>(stream, in, epilogue);
    case DType::kI4:
      return LaunchGroups<DType::kI4>(stream, in, epilogue);
    case DType::kBF16:
      return ProductBF16(stream, in, epilogue);
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_DECODE_PRODUCT_CUH_
