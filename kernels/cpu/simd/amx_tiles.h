// The tile registers of AMX, the matrix unit of Intel's processors since Sapphire Rapids, and their
// products.
//
// Two instruction sets have tiles. The set `amx` uses the unit. The set `amx_plain` computes the
// same bits in plain C++. Only tests build it: it runs the kernels on every processor.
//
// There are eight tiles of up to 16 rows of up to 64 bytes. Here they have fixed roles:
//
//   0 ... 3   sums: f32 or int32, two by two; sums of A tile a and B tile b are tile 2 a + b
//   4, 5      A: rows of inputs
//   6, 7      B: each row has one pair (bf16) or one four (int8) of k for each of 16 outputs
//
// A product adds A B to the sums. In bf16, with pairs p of k, it computes
//
//   even = fma(A[r, 2 p], B[p, c].even, even) for p = 0, 1, ... beginning with zero; odd likewise
//   sums[r, c] = sums[r, c] + (even + odd)
//
// Every operation rounds to nearest even, and replaces subnormal operands and results by zeros
// (Intel's manual, volume 2, TDPBF16PS). The products of bytes are exact.
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_AMX_TILES_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_AMX_TILES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Whether this set has tiles. Sets without them do not have the functions below.
#if defined(LONGSTREAM_AMX) || defined(LONGSTREAM_AMX_PLAIN)
#define LONGSTREAM_TILES
inline constexpr bool kHasTiles = true;
#else
inline constexpr bool kHasTiles = false;
#endif

inline constexpr int kAmxRows = 16;
inline constexpr int64_t kAmxRowBytes = 64;

#if defined(LONGSTREAM_TILES)

// While an object of this class lives, vectors round as the unit does: subnormal operands and
// results become zeros. The functions that compute with them must not be inlined beside it, so that
// the compiler moves nothing across.
class FlushesSubnormals {
 public:
  FlushesSubnormals() : before_(_mm_getcsr()) {
    constexpr unsigned kFlush = 1u << 15, kOperandsAreZeros = 1u << 6, kMaskExceptions = 0x1f80;
    _mm_setcsr(kFlush | kOperandsAreZeros | kMaskExceptions);
  }
  ~FlushesSubnormals() { _mm_setcsr(before_); }
  FlushesSubnormals(const FlushesSubnormals&) = delete;
  FlushesSubnormals& operator=(const FlushesSubnormals&) = delete;

 private:
  const unsigned before_;
};

// The shapes of the tiles: the A tiles have `rows` and `more_rows` rows of depth_bytes bytes, and
// the B tiles have depth_bytes / 4 rows. The sums have as many rows as their A tile. Tiles that a
// kernel does not use may have 0 rows.
struct AmxShape {
  int rows = kAmxRows;             // of tile 4, 0 ... 16
  int more_rows = kAmxRows;        // of tile 5, 0 ... 16
  int depth_bytes = kAmxRowBytes;  // a multiple of 4, at most 64

  bool operator==(const AmxShape&) const = default;
};

inline constexpr int kAmxA = 4;
inline constexpr int kAmxB = 6;

#if defined(LONGSTREAM_AMX)

// The memory that ldtilecfg reads (Intel's manual, volume 1, 18.2).
struct alignas(64) AmxConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(AmxConfiguration) == 64);

LONGSTREAM_INLINE void LoadAmxShape(const AmxShape& shape) {
  AmxConfiguration configuration;
  const auto set = [&](int tile, int rows, int bytes) {
    // A tile without rows is not configured, and no instruction may use it.
    configuration.rows[tile] = static_cast<uint8_t>(rows);
    configuration.row_bytes[tile] = static_cast<uint16_t>(rows == 0 ? 0 : bytes);
  };
  const int rows[2] = {shape.rows, shape.more_rows};
  for (int i = 0; i < 2; ++i) {
    set(2 * i, rows[i], kAmxRowBytes);
    set(2 * i + 1, rows[i], kAmxRowBytes);
    set(kAmxA + i, rows[i], shape.depth_bytes);
    set(kAmxB + i, shape.depth_bytes / 4, kAmxRowBytes);
  }
  asm volatile("ldtilecfg %0" ::"m"(configuration) : "memory");
}

// Tiles belong to a thread. A kernel makes one object of this class before it uses tiles, and sets
// the shape as often as it changes. The destructor releases the tiles, so that the system need not
// save them when it switches threads.
class AmxTiles {
 public:
  AmxTiles() = default;
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  ~AmxTiles() {
    if (has_shape_) asm volatile("tilerelease" ::: "memory");
  }

  // Makes all tiles zero if the shape changes.
  LONGSTREAM_INLINE void SetShape(const AmxShape& shape) {
    if (has_shape_ && shape == shape_) return;
    LoadAmxShape(shape);
    shape_ = shape;
    has_shape_ = true;
  }

  template <int kTile>
  LONGSTREAM_INLINE static void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  // Loads the tile's rows, which begin `stride` bytes apart.
  template <int kTile>
  LONGSTREAM_INLINE static void Load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  // As Load, for rows that come from a second-level cache and are not loaded again soon. They do
  // not displace others from the first-level cache.
  template <int kTile>
  LONGSTREAM_INLINE static void LoadOnce(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  LONGSTREAM_INLINE static void Store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // sums += A B in bf16
  template <int kSums, int kA, int kB>
  LONGSTREAM_INLINE static void MultiplyBF16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
  }
  // sums += A B with signed bytes of A and unsigned bytes of B
  template <int kSums, int kA, int kB>
  LONGSTREAM_INLINE static void MultiplyBytes() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
  }

 private:
  AmxShape shape_;
  bool has_shape_ = false;
};

#else

// The same in plain C++.
class AmxTiles {
 public:
  AmxTiles() = default;
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  void SetShape(const AmxShape& shape) {
    if (has_shape_ && shape == shape_) return;
    shape_ = shape;
    has_shape_ = true;
    __builtin_memset(tiles_, 0, sizeof(tiles_));
  }

  template <int kTile>
  void Zero() {
    __builtin_memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
  }
  template <int kTile>
  void Load(const void* from, int64_t stride) {
    Zero<kTile>();
    for (int r = 0; r < Rows(kTile); ++r) {
      __builtin_memcpy(tiles_[kTile][r], static_cast<const std::byte*>(from) + r * stride,
                       static_cast<size_t>(RowBytes(kTile)));
    }
  }
  template <int kTile>
  void LoadOnce(const void* from, int64_t stride) {
    Load<kTile>(from, stride);
  }
  template <int kTile>
  void Store(void* to, int64_t stride) const {
    for (int r = 0; r < Rows(kTile); ++r) {
      __builtin_memcpy(static_cast<std::byte*>(to) + r * stride, tiles_[kTile][r],
                       static_cast<size_t>(RowBytes(kTile)));
    }
  }
  template <int kSums, int kA, int kB>
  void MultiplyBF16() {
    const FlushesSubnormals flushes;
    AddProductsOfPairs(Rows(kSums), Rows(kB), tiles_[kA], tiles_[kB], tiles_[kSums]);
  }
  template <int kSums, int kA, int kB>
  void MultiplyBytes() {
    for (int r = 0; r < Rows(kSums); ++r) {
      auto* sums = reinterpret_cast<int32_t*>(tiles_[kSums][r]);
      const auto* a = reinterpret_cast<const int8_t*>(tiles_[kA][r]);
      for (int k = 0; k < shape_.depth_bytes; ++k) {
        const auto* b = reinterpret_cast<const uint8_t*>(tiles_[kB][k / 4]) + k % 4;
        for (int c = 0; c < kLanes; ++c) sums[c] += a[k] * b[4 * c];
      }
    }
  }

 private:
  using Tile = std::byte[kAmxRows][kAmxRowBytes];

  int Rows(int tile) const {
    if (tile >= kAmxB) return shape_.depth_bytes / 4;
    return (tile >= kAmxA ? tile - kAmxA : tile / 2) == 0 ? shape_.rows : shape_.more_rows;
  }
  int64_t RowBytes(int tile) const {
    return tile >= kAmxA && tile < kAmxB ? shape_.depth_bytes : kAmxRowBytes;
  }

  // Not inlined, so that the compiler computes nothing of it with another control register.
  [[gnu::noinline]] static void AddProductsOfPairs(int rows, int depth, const Tile& a,
                                                   const Tile& b, Tile& sums) {
    const I32x16 upper = Broadcast(-0x10000);
    for (int r = 0; r < rows; ++r) {
      F32x16 even = cpu::LONGSTREAM_ISA::Zero(), odd = cpu::LONGSTREAM_ISA::Zero();
      const auto* pairs = reinterpret_cast<const int32_t*>(a[r]);
      for (int p = 0; p < depth; ++p) {
        const I32x16 inputs = Broadcast(pairs[p]);
        const I32x16 weights = cpu::LONGSTREAM_ISA::Load(reinterpret_cast<const int32_t*>(b[p]));
        even = Fma(FromBits(inputs << 16), FromBits(weights << 16), even);
        odd = Fma(FromBits(inputs & upper), FromBits(weights & upper), odd);
      }
      auto* to = reinterpret_cast<float*>(sums[r]);
      cpu::LONGSTREAM_ISA::Store(cpu::LONGSTREAM_ISA::Load(to) + (even + odd), to);
    }
  }

  AmxShape shape_;
  bool has_shape_ = false;
  alignas(64) Tile tiles_[8] = {};
};

#endif

// The sums of one or two A tiles (kBothA) with one or two B tiles (kBothB). In memory the second A
// tile's rows follow 16 rows further on, and the second B tile's columns 16 numbers. `stride`:
// floats from one row to the next.
template <bool kBothA, bool kBothB>
struct AmxSums {
  LONGSTREAM_INLINE static void Zero(AmxTiles& unit) {
    unit.Zero<0>();
    if constexpr (kBothB) unit.Zero<1>();
    if constexpr (kBothA) unit.Zero<2>();
    if constexpr (kBothA && kBothB) unit.Zero<3>();
  }
  LONGSTREAM_INLINE static void Load(AmxTiles& unit, const float* from, int64_t stride) {
    const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
    const float* below = from + kAmxRows * stride;
    unit.Load<0>(from, bytes);
    if constexpr (kBothB) unit.Load<1>(from + kLanes, bytes);
    if constexpr (kBothA) unit.Load<2>(below, bytes);
    if constexpr (kBothA && kBothB) unit.Load<3>(below + kLanes, bytes);
  }
  LONGSTREAM_INLINE static void Store(AmxTiles& unit, float* to, int64_t stride) {
    const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
    float* below = to + kAmxRows * stride;
    unit.Store<0>(to, bytes);
    if constexpr (kBothB) unit.Store<1>(to + kLanes, bytes);
    if constexpr (kBothA) unit.Store<2>(below, bytes);
    if constexpr (kBothA && kBothB) unit.Store<3>(below + kLanes, bytes);
  }
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_AMX_TILES_H_
