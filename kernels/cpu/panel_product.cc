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
static_assert(kPanelVectors % kTileVectors == 0);

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
  bool resume;  // continue the sums that are there
};

// The same place in each of kRows rows. For more rows than x86 has registers, four share a pointer:
// stride, 2 stride and 3 stride behind it are addresses of an instruction. The asm hides how these
// numbers are related, as the compiler would make a pointer of each again.
template <typename A, int kRows>
class RowPointers {
 public:
  LONGSTREAM_INLINE RowPointers(const A* a, int64_t stride)
      : stride_(stride), three_strides_(3 * stride) {
    LONGSTREAM_UNROLL
    for (int g = 0; g < kPointers; ++g) pointers_[g] = a + g * kShare * stride;
    if constexpr (kShare > 1) asm("" : "+r"(stride_), "+r"(three_strides_));
  }

  LONGSTREAM_INLINE const A* row(int r) const {
    return pointers_[r / kShare] + (r % kShare == 3 ? three_strides_ : r % kShare * stride_);
  }
  LONGSTREAM_INLINE void Advance(int64_t inputs) {
    LONGSTREAM_UNROLL
    for (int g = 0; g < kPointers; ++g) {
      pointers_[g] += inputs;
      if constexpr (kShare > 1) asm("" : "+r"(pointers_[g]));
    }
  }

 private:
  static constexpr int kShare = kRows > 8 ? 4 : 1;
  static constexpr int kPointers = (kRows + kShare - 1) / kShare;

  const A* pointers_[kPointers];
  int64_t stride_;
  int64_t three_strides_;
};

// kRows rows times kVectors vectors, the first of which is at operands.w.
template <typename W, int kRows, int kVectors>
LONGSTREAM_INLINE void Tile(const Operands<W>& operands, const WeightsAhead& ahead) {
  using F = Format<W>;
  // Copies, so that the compiler knows that stores leave them alone.
  const auto [a, a_stride, w, panel_stride, k, sums, resume] = operands;
  const std::byte* asked = ahead.from;
  RowPointers<typename F::Activation, kRows> rows(a, a_stride);
  // Only in loops that are unrolled: others pass sums through the stack before and behind that
  // over k.
  F32x16 sum[kRows][kVectors];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Zero();
  }
  if (resume) {
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Load(sums + r * kSumsStride + v * kLanes);
    }
  }
  for (int64_t i = 0; i < k; i += F::kInputs) {
    typename F::Weights weights[kVectors];
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      Ask<kRows>(asked + v * ahead.vector);
      const W* from = w + v / kPanelVectors * panel_stride + i * kPanelOutputs +
                      v % kPanelVectors * kLanes * F::kInputs;
      weights[v] = F::Read(from);
    }
    asked += ahead.step;
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = F::MultiplyAdd(rows.row(r), weights[v], sum[r][v]);
      }
    }
    rows.Advance(F::kInputs);
  }
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) Store(sum[r][v], sums + r * kSumsStride + v * kLanes);
  }
}

// Tiles are inlined: a function that has used vectors ends with vzeroupper, which waits for them.
template <typename W, int kRows>
LONGSTREAM_INLINE void TileOfRows(int64_t rows, const Operands<W>& operands,
                                  const WeightsAhead& ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOfRows<W, kRows - 1>(rows, operands, ahead);
  }
  Tile<W, kRows, kTileVectors>(operands, ahead);
}

// All rows times kTileVectors vectors, those from `vector` on of a panel.
template <typename W>
void Rows(const TilePasses& passes, int64_t vector, Operands<W> operands) {
  constexpr int64_t kInputs = Format<W>::kInputs;
  const W* next = operands.w - vector * kLanes * kInputs + operands.k * kPanelOutputs;
  WeightsAhead ahead = passes.First(vector / kTileVectors, operands.w, next, operands.k / kInputs);
  for (int64_t t = 0; t < passes.rows.count; ++t) {
    const int64_t rows = passes.rows.size(t);
    TileOfRows<W, kTileRows>(rows, operands, ahead);
    operands.a += rows * operands.a_stride;
    operands.sums += rows * kSumsStride;
    ahead.from += ahead.tile;
  }
}

// One block of k: all vectors of the block's panels, several at a time.
template <typename W>
void Vectors(const OutputBlock& block, const TilePasses& passes, const Operands<W>& first) {
  const int64_t num_vectors = block.num_panels * kPanelVectors;
  for (int64_t v = 0; v < num_vectors;) {
    const int64_t in_panel = v % kPanelVectors;
    Operands<W> operands = first;
    operands.w += v / kPanelVectors * first.panel_stride + in_panel * kLanes * Format<W>::kInputs;
    operands.sums += v * kLanes;
    if (block.num_rows == 1 && num_vectors - v >= kSingleRowVectors) {
      Tile<W, 1, kSingleRowVectors>(operands, {});
      v += kSingleRowVectors;
    } else {
      Rows<W>(passes, in_panel, operands);
      v += kTileVectors;
    }
  }
}

template <typename W>
void Product(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
             float* sums) {
  constexpr int64_t kInputs = Format<W>::kInputs;
  constexpr int64_t kStepBytes = kInputs * kPanelOutputs * static_cast<int64_t>(sizeof(W));
  const int64_t panel_stride = PanelElements(weight.type, weight.k);
  const auto* a = h.row<typename Format<W>::Activation>(block.first_row);
  const W* w = static_cast<const W*>(weight.data) + block.first_panel * panel_stride;
  const int64_t steps = (weight.k + kInputs - 1) / kInputs;
  const TilePasses passes(block.num_rows, kTileRows, kPanelVectors / kTileVectors, kStepBytes);
  const EqualParts blocks(steps, passes.rows.count == 1 ? steps : kBlockBytes / kStepBytes);
  for (int64_t b = 0; b < blocks.count; ++b) {
    const int64_t inputs = blocks.size(b) * kInputs;
    Vectors<W>(block, passes, {a, h.stride, w, panel_stride, inputs, sums, b > 0});
    a += inputs;
    w += inputs * kPanelOutputs;
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
