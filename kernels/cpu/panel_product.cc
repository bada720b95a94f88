// Register-blocked products with packed panels.
#include "kernels/cpu/panel_product.h"

#include "kernels/cpu/quantised_product.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights_ahead.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The shape of a tile of sums that stays in registers: rows x vectors of 16 outputs, with room left
// for the weights of one k and one broadcast input. The sums must be enough to hide the latency of
// the multiply-add (about 4 cycles, two a cycle) even for one row.
#if defined(__AVX512F__)  // 32 registers, 1 a vector
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;
constexpr int kSingleRowVectors = 8;
#elif defined(__AVX2__)  // 16 registers, 2 a vector
constexpr int kTileRows = 4;
constexpr int kTileVectors = 1;
constexpr int kSingleRowVectors = 4;
#else                    // 16 registers, 4 a vector
constexpr int kTileRows = 2;
constexpr int kTileVectors = 1;
constexpr int kSingleRowVectors = 2;
#endif
constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / kLanes;

// Bytes of weights of a panel that all tiles of rows pass before the next ones, which come into the
// first-level cache meanwhile: together two thirds of the 48 KiB of a Zen 5 or Ice Lake processor.
// Blocks of a panel are of nearly equal size.
constexpr int64_t kBlockBytes = int64_t{16} << 10;

// How a weight type is read and multiplied: kInputs values of k at a time.
template <typename W>
struct Format {  // f32 and f16
  using Activation = float;
  static constexpr int kInputs = 1;
  using Weights = F32x16;

  LONGSTREAM_INLINE static Weights Read(const W* from) { return Load(from); }
  LONGSTREAM_INLINE static F32x16 MultiplyAdd(const float* a, const Weights& w, F32x16 sum) {
    return Fma(Broadcast(*a), w, sum);
  }
};

#if defined(__AVX512BF16__)

template <>
struct Format<BF16> {
  using Activation = BF16;
  static constexpr int kInputs = 2;
  using Weights = I32x16;

  LONGSTREAM_INLINE static Weights Read(const BF16* from) {
    return Load(reinterpret_cast<const int32_t*>(from));
  }
  LONGSTREAM_INLINE static F32x16 MultiplyAdd(const BF16* a, const Weights& w, F32x16 sum) {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof(pair));
    sum.part[0] = _mm512_dpbf16_ps(sum.part[0], reinterpret_cast<__m512bh>(NativeBroadcast(pair)),
                                   reinterpret_cast<__m512bh>(w.part[0]));
    return sum;
  }
};

#else

template <>
struct Format<BF16> {
  using Activation = float;
  static constexpr int kInputs = 2;
  struct Weights {
    F32x16 even;
    F32x16 odd;
  };

  LONGSTREAM_INLINE static Weights Read(const BF16* from) {
    const I32x16 pairs = Load(reinterpret_cast<const int32_t*>(from));
    return {FromBits(pairs << 16), FromBits(pairs & Broadcast(-0x10000))};
  }
  LONGSTREAM_INLINE static F32x16 MultiplyAdd(const float* a, const Weights& w, F32x16 sum) {
    return Fma(Broadcast(a[1]), w.odd, Fma(Broadcast(a[0]), w.even, sum));
  }
};

#endif

// Part of a product: the rows at `a`, the panels at `w` and k inputs of both.
template <typename W>
struct Operands {
  const typename Format<W>::Activation* a;
  int64_t a_stride;
  const W* w;
  int64_t panel_stride;  // elements from one panel to the next
  int64_t k;
  float* sums;
  int64_t sums_stride;
  bool resume;  // continue the sums that are there
};

// kRows rows times kVectors vectors, the first of which is at operands.w.
template <typename W, int kRows, int kVectors>
void Tile(const Operands<W>& operands, const WeightsAhead& ahead) {
  using F = Format<W>;
  // Copies, so that the compiler knows that stores leave them alone.
  const auto [a, a_stride, w, panel_stride, k, sums, sums_stride, resume] = operands;
  const std::byte* asked = ahead.from;
  F32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = resume ? Load(sums + r * sums_stride + v * kLanes) : Zero();
    }
  }
  for (int64_t i = 0; i < k; i += F::kInputs) {
    typename F::Weights weights[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      Ask<kRows>(asked + v * ahead.vector);
      const W* from = w + v / kPanelVectors * panel_stride + i * kPanelOutputs +
                      v % kPanelVectors * kLanes * F::kInputs;
      weights[v] = F::Read(from);
    }
    asked += ahead.step;
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = F::MultiplyAdd(a + r * a_stride + i, weights[v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) Store(sum[r][v], sums + r * sums_stride + v * kLanes);
  }
}

template <typename W, int kRows, int kVectors>
void TileOfRows(int64_t rows, const Operands<W>& operands, const WeightsAhead& ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOfRows<W, kRows - 1, kVectors>(rows, operands, ahead);
  }
  Tile<W, kRows, kVectors>(operands, ahead);
}

// All rows times kVectors vectors, those from `vector` on of a panel: tiles of nearly equal height,
// so that none is a single row.
template <typename W, int kVectors>
void Rows(int64_t num_rows, int64_t vector, Operands<W> operands) {
  constexpr int64_t kInputs = Format<W>::kInputs;
  constexpr int64_t kStepBytes = kInputs * kPanelOutputs * static_cast<int64_t>(sizeof(W));
  constexpr int64_t kPasses = kPanelVectors / kVectors;  // of all rows over a panel's weights
  const int64_t tiles = (num_rows + kTileRows - 1) / kTileRows;
  const int64_t steps = operands.k / kInputs;
  const W* next = operands.w - vector * kLanes * kInputs + operands.k * kPanelOutputs;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t rows = (num_rows + tiles - t - 1) / (tiles - t);
    const WeightsAhead ahead = tiles == 1
                                   ? Behind(operands.w, kStepBytes)
                                   : PartOf(next, steps * kStepBytes, vector / kVectors * tiles + t,
                                            kPasses * tiles, steps);
    TileOfRows<W, kTileRows, kVectors>(rows, operands, ahead);
    operands.a += rows * operands.a_stride;
    operands.sums += rows * operands.sums_stride;
    num_rows -= rows;
  }
}

// One block of k: all vectors of the block's panels, several at a time.
template <typename W>
void Vectors(const OutputBlock& block, const Operands<W>& first) {
  const int64_t num_vectors = block.num_panels * kPanelVectors;
  constexpr int kRest = kTileVectors < kPanelVectors ? kTileVectors : kPanelVectors;
  for (int64_t v = 0; v < num_vectors;) {
    const int64_t in_panel = v % kPanelVectors;
    Operands<W> operands = first;
    operands.w += v / kPanelVectors * first.panel_stride + in_panel * kLanes * Format<W>::kInputs;
    operands.sums += v * kLanes;
    const int64_t left = num_vectors - v;
    if (block.num_rows == 1 && left >= kSingleRowVectors) {
      Tile<W, 1, kSingleRowVectors>(operands, {});
      v += kSingleRowVectors;
    } else if (left >= kTileVectors) {
      Rows<W, kTileVectors>(block.num_rows, in_panel, operands);
      v += kTileVectors;
    } else {
      Rows<W, kRest>(block.num_rows, in_panel, operands);
      v += kRest;
    }
  }
}

template <typename W>
void Product(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
             float* sums) {
  constexpr int64_t kInputs = Format<W>::kInputs;
  constexpr int64_t kMaxInputs = kBlockBytes / (kPanelOutputs * static_cast<int64_t>(sizeof(W)));
  const int64_t panel_stride = PanelElements(weight.type, weight.k);
  const auto* a = h.row<typename Format<W>::Activation>(block.first_row);
  const W* w = static_cast<const W*>(weight.data) + block.first_panel * panel_stride;
  const int64_t steps = (weight.k + kInputs - 1) / kInputs;
  const bool one_tile = block.num_rows <= kTileRows;
  const int64_t blocks = one_tile ? 1 : (steps * kInputs + kMaxInputs - 1) / kMaxInputs;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = steps * b / blocks * kInputs;
    const int64_t inputs = steps * (b + 1) / blocks * kInputs - first;
    Vectors<W>(block, {a + first, h.stride, w + first * kPanelOutputs, panel_stride, inputs, sums,
                       block.stride(), b > 0});
  }
}

}  // namespace

void PanelProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                  float* sums) {
  switch (weight.type) {
    case DType::kF32:
      return Product<float>(h, weight, block, sums);
    case DType::kF16:
      return Product<F16>(h, weight, block, sums);
    case DType::kBF16:
      return Product<BF16>(h, weight, block, sums);
    case DType::kI8:
    case DType::kI4:
      return QuantisedProduct(h, weight, block, sums);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
