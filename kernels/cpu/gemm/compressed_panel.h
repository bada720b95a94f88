// bf16 panels that take 12 bits a number, without loss. They are for AVX2 and later sets, where
// products of few rows wait for memory.
//
// The upper byte of a bf16 is its sign and seven of the eight bits of its exponent. There are 256
// upper bytes, but a panel of trained or random weights has hardly more than 16 of them: they cover
// all magnitudes from the panel's largest down to 2^-16 of it, with both signs. A nibble can name
// one of 16 upper bytes. The panel may have a few numbers with other upper bytes. They are stored
// whole in patches, and a patch replaces the numbers that the nibbles give:
//
//   weight   u32 per panel: where it begins, in lines of 64 bytes from the weight's beginning
//            the panels, without gaps
//   panel    the front, a line: u8 upper bytes [16] | u32 compressed, 0 or 1 |
//                               u32 number of patches
//            the steps, each a pair of k of all 32 outputs
//            patches, in the order of their steps, to the end of a line
//   plain    a step: bf16 [32][2]. There are no patches
//   compressed, two steps: nibbles [64] of both, low nibbles for the first step; then the lower
//            bytes [64] of the first step and of the second; in the order of PlaceOf
//
// A panel stays plain if it would need more than MostPatches patches or has an odd number of steps.
// Then its front has only zeros, as Pack writes it.
//
// Panels follow each other without gaps, because a processor reads ahead in one long run.
// (Compressed panels that stayed at the places of the plain ones gained no speed.) The memory that
// is left at the end is zero, and no op reads it.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_PANEL_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_PANEL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/lanes/simd_native.h"
#include "kernels/core/matrix.h"
#include "kernels/cpu/gemm/panel.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Whether bf16 weights are in this layout. The baseline set has no instruction that looks up bytes
// in a table, so its panels are plain.
#if defined(__AVX2__)
inline constexpr bool kCompressesBF16 = true;
#else
inline constexpr bool kCompressesBF16 = false;
#endif

inline constexpr int64_t kStepInputs = 2;
inline constexpr int64_t kStepNumbers = kStepInputs * kPanelOutputs;
inline constexpr int64_t kPlainStepBytes = kStepNumbers * static_cast<int64_t>(sizeof(BF16));
inline constexpr int64_t kUpperBytes = 16;  // the number of upper bytes that nibbles name
// A number takes a nibble and a byte. Two steps are stored together, so that their nibbles fill a
// line.
inline constexpr int64_t kCompressedStepBytes = kStepNumbers * 3 / 2;
inline constexpr int64_t kNibbleBytes = kStepNumbers;  // the nibbles of two steps
static_assert(2 * kCompressedStepBytes % kLineBytes == 0 && kNibbleBytes == kLineBytes);

LONGSTREAM_INLINE int64_t NumSteps(int64_t k) { return (k + kStepInputs - 1) / kStepInputs; }

LONGSTREAM_INLINE int64_t WholeLines(int64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

LONGSTREAM_INLINE int64_t IndexBytes(int64_t n) {
  return WholeLines(NumPanels(n) * static_cast<int64_t>(sizeof(uint32_t)));
}

struct PanelFront {
  uint8_t upper_bytes[kUpperBytes];
  uint32_t compressed;
  uint32_t num_patches;
};
inline constexpr int64_t kFrontBytes = kLineBytes;
static_assert(sizeof(PanelFront) <= kFrontBytes);

// A patch replaces the two numbers of one output in a step. One of them or both differ from what
// their nibbles give.
struct Patch {
  uint32_t step_and_output;  // step * 32 + output
  uint32_t numbers;          // both numbers, as a plain step has them
};

// The most patches of a compressed panel. Each patch interrupts a loop. While a panel is
// compressed, its patches are collected in an array on the stack.
inline constexpr int64_t kMostPatches = 1024;
LONGSTREAM_INLINE int64_t MostPatches(int64_t steps) {
  return steps / 8 < kMostPatches ? steps / 8 : kMostPatches;
}

// The bytes of a plain panel; no panel takes more.
LONGSTREAM_INLINE int64_t MostPanelBytes(int64_t k) {
  return kFrontBytes + NumSteps(k) * kPlainStepBytes;
}

// Panel number `panel` of a weight. It is writable if the weight is.
template <typename Byte>
LONGSTREAM_INLINE Byte* PanelAt(Byte* weight, int64_t panel) {
  uint32_t line;
  __builtin_memcpy(&line, weight + panel * static_cast<int64_t>(sizeof(line)), sizeof(line));
  return weight + int64_t{line} * kLineBytes;
}
LONGSTREAM_INLINE const std::byte* PanelAt(const PackedWeight& weight, int64_t panel) {
  return PanelAt(static_cast<const std::byte*>(weight.data), panel);
}

// The numbers of a step are cut into columns. A register holds one byte of each number of a column.
// A column has 16 outputs on AVX2, and all 32 on AVX-512.
inline constexpr int64_t kColumnNumbers = 4 * kNativeLanes;
inline constexpr int64_t kColumnOutputs = kColumnNumbers / kStepInputs;
inline constexpr int64_t kColumns = kStepNumbers / kColumnNumbers;

// The place of number `number` of a step among the step's nibbles and among its lower bytes. A
// reader joins a register of lower bytes and a register of upper bytes to two registers of numbers.
// unpacklo makes the first one, from the first eight of each 16 bytes. unpackhi makes the second
// one, from the last eight of each 16. So the first half of a column's numbers has the first eight
// places of each 16, and the second half has the last eight.
LONGSTREAM_INLINE int64_t PlaceOf(int64_t number) {
  constexpr int64_t kHalf = kColumnNumbers / 2;
  const int64_t in_column = number % kColumnNumbers;
  return number - in_column + in_column % kHalf / 8 * 16 + in_column / kHalf * 8 + in_column % 8;
}

// Takes the patches of a panel one after the other.
class Patches {
 public:
  Patches() = default;
  LONGSTREAM_INLINE Patches(const std::byte* from, int64_t count)
      : next_(from), end_(from + count * static_cast<int64_t>(sizeof(Patch))) {}

  // The step of the next patch, or a number beyond all steps if there is none.
  LONGSTREAM_INLINE int64_t step() const {
    return next_ == end_ ? INT64_MAX : Next().step_and_output / kPanelOutputs;
  }
  // REQUIRES: there is a next patch
  LONGSTREAM_INLINE Patch Take() {
    const Patch patch = Next();
    next_ += sizeof(Patch);
    return patch;
  }

 private:
  LONGSTREAM_INLINE Patch Next() const {
    Patch patch;
    __builtin_memcpy(&patch, next_, sizeof(patch));
    return patch;
  }

  const std::byte* next_ = nullptr;
  const std::byte* end_ = nullptr;
};

// A panel of k inputs.
class PanelView {
 public:
  LONGSTREAM_INLINE PanelView(const std::byte* panel, int64_t k)
      : panel_(panel), num_steps_(NumSteps(k)) {
    __builtin_memcpy(&front_, panel, sizeof(front_));
  }

  bool compressed() const { return front_.compressed != 0; }
  int64_t num_steps() const { return num_steps_; }
  int64_t step_bytes() const { return compressed() ? kCompressedStepBytes : kPlainStepBytes; }
  const std::byte* steps() const { return panel_ + kFrontBytes; }
  Patches patches() const {
    return {steps() + num_steps_ * step_bytes(), int64_t{front_.num_patches}};
  }
  const std::byte* upper_bytes() const { return panel_; }
  // The length of the panel in whole lines.
  int64_t bytes() const {
    return WholeLines(kFrontBytes + num_steps_ * step_bytes() +
                      front_.num_patches * static_cast<int64_t>(sizeof(Patch)));
  }

  // Number `number` of a step, counted as in a plain step. In a step with patches this is the
  // number that the nibble gives, not the patch.
  LONGSTREAM_INLINE BF16 NumberAt(int64_t step, int64_t number) const {
    if (!compressed()) {
      BF16 plain;
      __builtin_memcpy(
          &plain, steps() + step * kPlainStepBytes + number * static_cast<int64_t>(sizeof(plain)),
          sizeof(plain));
      return plain;
    }
    const std::byte* two = steps() + step / 2 * 2 * kCompressedStepBytes;
    const int64_t place = PlaceOf(number);
    const auto name = (std::to_integer<unsigned>(two[place]) >> (step % 2 * 4)) & 15;
    const std::byte lower = two[kNibbleBytes + step % 2 * kStepNumbers + place];
    return {
        static_cast<uint16_t>(front_.upper_bytes[name] << 8 | std::to_integer<unsigned>(lower))};
  }

 private:
  const std::byte* panel_;
  int64_t num_steps_;
  PanelFront front_;
};

#if defined(__AVX2__)

// A register of bytes, and operations on bytes and on the numbers that they are parts of.
#if defined(__AVX512F__)

using NativeBytes = __m512i;

LONGSTREAM_INLINE NativeBytes LoadBytes(const void* from) { return _mm512_loadu_si512(from); }
// Loads 16 bytes, and repeats them in every 16 bytes of the register.
LONGSTREAM_INLINE NativeBytes LoadTable(const void* from) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
LONGSTREAM_INLINE NativeBytes LowNibbles(NativeBytes bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}
LONGSTREAM_INLINE NativeBytes HighNibbles(NativeBytes bytes) {
  return LowNibbles(_mm512_srli_epi16(bytes, 4));
}
LONGSTREAM_INLINE NativeBytes LookUp(NativeBytes table, NativeBytes nibbles) {
  return _mm512_shuffle_epi8(table, nibbles);
}
// These join lower and upper bytes to numbers. InterleaveLow takes the first eight of each 16
// bytes, InterleaveHigh the last eight.
LONGSTREAM_INLINE NativeI32 InterleaveLow(NativeBytes lower, NativeBytes upper) {
  return reinterpret_cast<NativeI32>(_mm512_unpacklo_epi8(lower, upper));
}
LONGSTREAM_INLINE NativeI32 InterleaveHigh(NativeBytes lower, NativeBytes upper) {
  return reinterpret_cast<NativeI32>(_mm512_unpackhi_epi8(lower, upper));
}
// Writes `value` to each lane whose bit in `bits` is 1.
LONGSTREAM_INLINE NativeI32 SetLanes(NativeI32 lanes, uint32_t bits, int32_t value) {
  return reinterpret_cast<NativeI32>(_mm512_mask_set1_epi32(reinterpret_cast<__m512i>(lanes),
                                                            static_cast<__mmask16>(bits), value));
}

#else

using NativeBytes = __m256i;

LONGSTREAM_INLINE NativeBytes LoadBytes(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
LONGSTREAM_INLINE NativeBytes LoadTable(const void* from) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
LONGSTREAM_INLINE NativeBytes LowNibbles(NativeBytes bytes) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}
LONGSTREAM_INLINE NativeBytes HighNibbles(NativeBytes bytes) {
  return LowNibbles(_mm256_srli_epi16(bytes, 4));
}
LONGSTREAM_INLINE NativeBytes LookUp(NativeBytes table, NativeBytes nibbles) {
  return _mm256_shuffle_epi8(table, nibbles);
}
LONGSTREAM_INLINE NativeI32 InterleaveLow(NativeBytes lower, NativeBytes upper) {
  return reinterpret_cast<NativeI32>(_mm256_unpacklo_epi8(lower, upper));
}
LONGSTREAM_INLINE NativeI32 InterleaveHigh(NativeBytes lower, NativeBytes upper) {
  return reinterpret_cast<NativeI32>(_mm256_unpackhi_epi8(lower, upper));
}
LONGSTREAM_INLINE NativeI32 SetLanes(NativeI32 lanes, uint32_t bits, int32_t value) {
  const NativeI32 of_lane = {1, 2, 4, 8, 16, 32, 64, 128};
  const NativeI32 set = (NativeBroadcast(static_cast<int32_t>(bits)) & of_lane) == of_lane;
  return set ? NativeBroadcast(value) : lanes;
}

#endif

static_assert(sizeof(NativeBytes) == kColumnNumbers);

// Reads numbers of compressed steps from their bytes.
class StepReader {
 public:
  StepReader() = default;
  LONGSTREAM_INLINE explicit StepReader(const PanelView& panel)
      : upper_bytes_(LoadTable(panel.upper_bytes())) {}

  // Reads a column of one of the two steps at `steps`; `step` is 0 or 1, and `steps` points to the
  // column's nibbles. Writes the pairs of numbers of the column's outputs, in order, to `numbers`.
  // They are two vectors on AVX-512 and one on AVX2.
  LONGSTREAM_INLINE void Read(const std::byte* steps, int step, I32x16* numbers) const {
    const NativeBytes nibbles = LoadBytes(steps);
    const NativeBytes upper =
        LookUp(upper_bytes_, step == 0 ? LowNibbles(nibbles) : HighNibbles(nibbles));
    const NativeBytes lower = LoadBytes(steps + kNibbleBytes + step * kStepNumbers);
    numbers[0].part[0] = InterleaveLow(lower, upper);
    numbers[1 / kParts].part[1 % kParts] = InterleaveHigh(lower, upper);
  }

  // Applies the patches of step `step`, if there are any. `numbers` are kVectors vectors of outputs
  // of this step, from output first_output on.
  template <int kVectors>
  LONGSTREAM_INLINE static void Lay(Patches& patches, int64_t step, int64_t first_output,
                                    I32x16* numbers) {
    while (patches.step() == step) {
      const Patch patch = patches.Take();
      const uint32_t outputs = (1u << patch.step_and_output % kPanelOutputs) >> first_output;
      const auto pair = static_cast<int32_t>(patch.numbers);
      for (int i = 0; i < kVectors * kParts; ++i) {
        NativeI32& lanes = numbers[i / kParts].part[i % kParts];
        lanes = SetLanes(lanes, outputs >> i * kNativeLanes, pair);
      }
    }
  }

 private:
  NativeBytes upper_bytes_;
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_PANEL_H_
