// bf16 panels in 12 bits a number, without loss: for processors with the bf16 dot product, whose
// products of few rows wait for memory.
//
// The upper byte of a bf16 is its sign and seven of the eight bits of its exponent. Of the 256 that
// there may be, a panel of trained or random weights has hardly more than the 16 that a nibble can
// name: all magnitudes from its largest down to 2^-16 of it. What has another one, a few numbers of
// a panel, stands whole in a patch, which is laid over what its nibble says:
//
//   weight   u32 where each panel begins, in lines of 64 bytes from here | the panels, without gaps
//   panel    the front, a line: u8 upper bytes [16] | u32 compressed, 0 or 1 | u32 patches
//            the steps, pairs of k of all 32 outputs
//            patches, in the order of their steps, to the end of a line
//   plain    a step: bf16 [32][2]. There are no patches
//   compressed, two steps: nibbles [64] of both, the first one's are the low ones; then the lower
//            bytes of the first and of the second [64] each; in the order of PlaceOf
//
// A panel stays plain, as its front of zeros says that Pack leaves, where too many numbers would be
// patched (MostPatches), or the number of steps is odd.
//
// Panels follow each other without gaps because a processor reads ahead of one long run: with each
// where its plain form would be, nothing was gained. No op reads the memory that this leaves at the
// end, which is zero.
#ifndef LONGSTREAM_KERNELS_CPU_COMPRESSED_PANEL_H_
#define LONGSTREAM_KERNELS_CPU_COMPRESSED_PANEL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/cpu/panel.h"
#include "kernels/cpu/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Whether bf16 weights are in this layout. On the other sets, which convert each number before they
// multiply it, they are plain panels.
#if defined(__AVX512BF16__)
inline constexpr bool kCompressesBF16 = true;
#else
inline constexpr bool kCompressesBF16 = false;
#endif

inline constexpr int64_t kStepInputs = 2;
inline constexpr int64_t kStepNumbers = kStepInputs * kPanelOutputs;
inline constexpr int64_t kPlainStepBytes = kStepNumbers * static_cast<int64_t>(sizeof(BF16));
inline constexpr int64_t kUpperBytes = 16;  // that nibbles name
// A nibble and a byte a number; of two steps, so that the nibbles are a whole line.
inline constexpr int64_t kCompressedStepBytes = kStepNumbers * 3 / 2;
inline constexpr int64_t kNibbleBytes = kStepNumbers;  // of two steps
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

// Two numbers of a step that are not what their nibbles say, or one.
struct Patch {
  uint32_t step_and_output;  // step * 32 + output
  uint32_t numbers;          // both of them, as they lie in a plain step
};

// Of a panel that is compressed. Each interrupts a loop; they are made in an array of the stack.
inline constexpr int64_t kMostPatches = 1024;
LONGSTREAM_INLINE int64_t MostPatches(int64_t steps) {
  return steps / 8 < kMostPatches ? steps / 8 : kMostPatches;
}

// Bytes of a plain panel, the most that one takes.
LONGSTREAM_INLINE int64_t MostPanelBytes(int64_t k) {
  return kFrontBytes + NumSteps(k) * kPlainStepBytes;
}

// The panel `panel` of a weight. It is writable where the weight is.
template <typename Byte>
LONGSTREAM_INLINE Byte* PanelAt(Byte* weight, int64_t panel) {
  uint32_t line;
  __builtin_memcpy(&line, weight + panel * static_cast<int64_t>(sizeof(line)), sizeof(line));
  return weight + int64_t{line} * kLineBytes;
}
LONGSTREAM_INLINE const std::byte* PanelAt(const PackedWeight& weight, int64_t panel) {
  return PanelAt(static_cast<const std::byte*>(weight.data), panel);
}

// Where among the bytes of a compressed step those of a number are: the two vectors of 16 outputs
// are what unpacklo and unpackhi make of two vectors of bytes, eight numbers from each 16 bytes.
LONGSTREAM_INLINE int64_t PlaceOf(int64_t number) {
  return number % 32 / 8 * 16 + number / 32 * 8 + number % 8;
}

// The patches of a panel from the first to the last.
class Patches {
 public:
  LONGSTREAM_INLINE Patches(const std::byte* from, int64_t count)
      : next_(from), end_(from + count * static_cast<int64_t>(sizeof(Patch))) {}

  // The step of the next one; behind all steps where there is none.
  LONGSTREAM_INLINE int64_t step() const {
    return next_ == end_ ? INT64_MAX : Next().step_and_output / kPanelOutputs;
  }
  // REQUIRES: there is one
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

  const std::byte* next_;
  const std::byte* end_;
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
  // In whole lines.
  int64_t bytes() const {
    return WholeLines(kFrontBytes + num_steps_ * step_bytes() +
                      front_.num_patches * static_cast<int64_t>(sizeof(Patch)));
  }

  // The number `number` of a step, as a plain one counts them; of a patched step what its nibble
  // says.
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

#if defined(__AVX512BF16__)

// Numbers of compressed steps from their bytes.
class StepReader {
 public:
  LONGSTREAM_INLINE explicit StepReader(const PanelView& panel)
      : upper_bytes_(_mm512_broadcast_i32x4(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(panel.upper_bytes())))) {}

  // Step 0 or 1 of the two at `steps`: numbers[0] and [1] are its vectors of 16 outputs, pairs of
  // k.
  LONGSTREAM_INLINE void Read(const std::byte* steps, int step, I32x16* numbers) const {
    __m512i nibbles = _mm512_loadu_si512(steps);
    if (step == 1) nibbles = _mm512_srli_epi16(nibbles, 4);
    const __m512i upper =
        _mm512_shuffle_epi8(upper_bytes_, _mm512_and_si512(nibbles, _mm512_set1_epi8(15)));
    const __m512i lower = _mm512_loadu_si512(steps + kNibbleBytes + step * kStepNumbers);
    numbers[0].part[0] = reinterpret_cast<NativeI32>(_mm512_unpacklo_epi8(lower, upper));
    numbers[1].part[0] = reinterpret_cast<NativeI32>(_mm512_unpackhi_epi8(lower, upper));
  }

  // Lays the patches of step `step`, if they are next, over its numbers.
  LONGSTREAM_INLINE static void Lay(Patches& patches, int64_t step, I32x16* numbers) {
    while (patches.step() == step) {
      const Patch patch = patches.Take();
      const uint32_t lane = 1u << patch.step_and_output % kPanelOutputs;
      const auto pair = static_cast<int>(patch.numbers);
      for (int v = 0; v < 2; ++v) {
        numbers[v].part[0] = reinterpret_cast<NativeI32>(
            _mm512_mask_set1_epi32(reinterpret_cast<__m512i>(numbers[v].part[0]),
                                   static_cast<__mmask16>(lane >> 16 * v), pair));
      }
    }
  }

 private:
  const __m512i upper_bytes_;
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_COMPRESSED_PANEL_H_
