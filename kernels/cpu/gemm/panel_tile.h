// Tiles of a product with packed panels. The sums of a tile, some rows times some vectors of
// outputs, stay in registers from the first k to the last.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_PANEL_TILE_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_PANEL_TILE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm/panel.h"
#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prefetch.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The shape of a tile: rows times vectors of 16 outputs. The sums of a tile stay in registers, and
// leave room for the weights of one k and one broadcast input. Even one row must have enough sums
// to hide the latency of the multiply-add: it takes about 4 cycles, and two can begin in each
// cycle.
#if defined(__AVX512F__)  // 32 registers; a vector takes 1
inline constexpr int kPanelTileRows = 12;
inline constexpr int kPanelTileVectors = 2;
inline constexpr int kSingleRowVectors = 8;
#elif defined(__AVX2__)  // 16 registers; a vector takes 2
inline constexpr int kPanelTileRows = 4;
inline constexpr int kPanelTileVectors = 1;
inline constexpr int kSingleRowVectors = 4;
#else                    // 16 registers; a vector takes 4
inline constexpr int kPanelTileRows = 2;
inline constexpr int kPanelTileVectors = 1;
inline constexpr int kSingleRowVectors = 2;
#endif
inline constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / kLanes;
static_assert(kPanelVectors % kPanelTileVectors == 0);

// How weights of type W are read and multiplied. A step takes kInputs inputs.
template <typename W>
struct PanelFormat {  // f32 and f16
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
struct PanelFormat<BF16> {
  using Activation = BF16;
  static constexpr int kInputs = 2;
  using Weights = I32x16;

  LONGSTREAM_INLINE static const Weights& Widen(const I32x16& pairs) { return pairs; }
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
struct PanelFormat<BF16> {
  using Activation = float;
  static constexpr int kInputs = 2;
  struct Weights {
    F32x16 even;
    F32x16 odd;
  };

  LONGSTREAM_INLINE static Weights Widen(const I32x16& pairs) {
    return {FromBits(pairs << 16), FromBits(pairs & Broadcast(-0x10000))};
  }
  LONGSTREAM_INLINE static Weights Read(const BF16* from) {
    return Widen(Load(reinterpret_cast<const int32_t*>(from)));
  }
  LONGSTREAM_INLINE static F32x16 MultiplyAdd(const float* a, const Weights& w, F32x16 sum) {
    return Fma(Broadcast(a[1]), w.odd, Fma(Broadcast(a[0]), w.even, sum));
  }
};

#endif

// The operands of a part of a product: the rows at `a`, the panels at `w`, and k inputs of both.
template <typename W>
struct PanelOperands {
  const typename PanelFormat<W>::Activation* a;
  int64_t a_stride;
  const W* w;
  int64_t panel_stride;  // elements from one panel to the next
  int64_t k;
  float* sums;
  bool resume;  // continue the sums that are at `sums`
};

// Pointers to the same place in each of kRows rows. If x86 has too few registers for all rows, four
// rows share a pointer: an instruction can address the rows at stride, 2 stride and 3 stride behind
// it. The asm hides how these numbers are related. Otherwise the compiler would make a pointer for
// each row.
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

// The sums of kRows rows and kVectors vectors. All loops here and in the code that uses the sums
// must be unrolled. Otherwise the sums go through the stack before and after the loop over k.
template <int kRows, int kVectors>
struct TileSums {
  // Begins with zeros or, with `resume`, with the sums that End has written to `sums`.
  LONGSTREAM_INLINE void Begin(const float* sums, bool resume) {
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) of[r][v] = Zero();
    }
    if (!resume) return;
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) of[r][v] = Load(sums + r * kSumsStride + v * kLanes);
    }
  }

  // Adds the products of one step. weights[v]: the weights of vector v
  template <typename W>
  LONGSTREAM_INLINE void Add(const RowPointers<typename PanelFormat<W>::Activation, kRows>& rows,
                             const typename PanelFormat<W>::Weights (&weights)[kVectors]) {
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        of[r][v] = PanelFormat<W>::MultiplyAdd(rows.row(r), weights[v], of[r][v]);
      }
    }
  }

  // Adds the products of a step of bf16 weights. pairs[v]: the weights of vector v
  LONGSTREAM_INLINE void AddPairs(
      const RowPointers<typename PanelFormat<BF16>::Activation, kRows>& rows,
      const I32x16 (&pairs)[kVectors]) {
    typename PanelFormat<BF16>::Weights weights[kVectors];
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) weights[v] = PanelFormat<BF16>::Widen(pairs[v]);
    Add<BF16>(rows, weights);
  }

  LONGSTREAM_INLINE void End(float* sums) const {
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) Store(of[r][v], sums + r * kSumsStride + v * kLanes);
    }
  }

  F32x16 of[kRows][kVectors];
};

// Multiplies kRows rows with kVectors vectors, the first of which is at operands.w.
template <typename W, int kRows, int kVectors>
LONGSTREAM_INLINE void Tile(const PanelOperands<W>& operands, const Prefetch& ahead) {
  using F = PanelFormat<W>;
  // The operands are copied, so that the compiler knows that stores do not change them.
  const auto [a, a_stride, w, panel_stride, k, sums, resume] = operands;
  const std::byte* asked = ahead.from;
  RowPointers<typename F::Activation, kRows> rows(a, a_stride);
  TileSums<kRows, kVectors> sum;
  sum.Begin(sums, resume);
  for (int64_t i = 0; i < k; i += F::kInputs) {
    typename F::Weights weights[kVectors];
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      PrefetchLine<kRows>(asked + v * ahead.vector);
      const W* from = w + v / kPanelVectors * panel_stride + i * kPanelOutputs +
                      v % kPanelVectors * kLanes * F::kInputs;
      weights[v] = F::Read(from);
    }
    asked += ahead.step;
    sum.template Add<W>(rows, weights);
    rows.Advance(F::kInputs);
  }
  sum.End(sums);
}

// Tiles are inlined, because a function that has used vectors ends with vzeroupper, which waits for
// these vectors.
template <typename W, int kRows>
LONGSTREAM_INLINE void TileOfRows(int64_t rows, const PanelOperands<W>& operands,
                                  const Prefetch& ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOfRows<W, kRows - 1>(rows, operands, ahead);
  }
  Tile<W, kRows, kPanelTileVectors>(operands, ahead);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_PANEL_TILE_H_
