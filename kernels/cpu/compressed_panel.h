// bf16 panels in 12 bits a number, without loss: for processors with the bf16 dot product, whose
// products of few rows wait for memory.
//
// The upper byte of a bf16 is its sign and seven of the eight bits of its exponent. Of the 256 that
// there may be, a panel of trained or random weights has hardly more than the 16 that a nibble can
// name: all magnitudes from its largest down to 2^-16 of it. So a panel (panel.h) has a front and
// then its steps, pairs of k of all 32 outputs, in runs that are compressed and plain by turns:
//
//   weight   u32 where each panel begins, in lines of 64 bytes from here | the panels, without gaps
//   panel    u8 upper bytes [16] | u32 steps of each run [MostRuns(k)] | the runs
//   plain    a step: bf16 [32][2]
//   compressed, two steps: nibbles [64] of both, the first one's are the low ones; then the lower
//            bytes of the first and of the second [64] each; in the order of PlaceOf
//
// The first run is compressed (of 0 steps where the panel begins otherwise). All runs but the last
// begin and end at even steps; the last one that MostRuns lets be named takes the rest, whatever it
// says. So a front of zeros is that of a plain panel, and that is what Pack leaves.
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

// Runs that a panel can name: enough for one of each kind in 32 steps.
LONGSTREAM_INLINE int64_t MostRuns(int64_t k) { return 2 * (NumSteps(k) / 32 + 1); }

LONGSTREAM_INLINE int64_t WholeLines(int64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// Bytes in front of a panel's steps, and in front of a weight's panels.
LONGSTREAM_INLINE int64_t FrontBytes(int64_t k) {
  return WholeLines(kUpperBytes + MostRuns(k) * static_cast<int64_t>(sizeof(uint32_t)));
}
LONGSTREAM_INLINE int64_t IndexBytes(int64_t n) {
  return WholeLines(NumPanels(n) * static_cast<int64_t>(sizeof(uint32_t)));
}

// Bytes of a panel that is all plain, the most that one takes.
LONGSTREAM_INLINE int64_t MostPanelBytes(int64_t k) {
  return FrontBytes(k) + NumSteps(k) * kPlainStepBytes;
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

// The steps of a panel from the first to the last, part by part.
class PanelSteps {
 public:
  // Steps that follow each other in one run.
  struct Part {
    const std::byte* from;
    int64_t steps;
    bool compressed;
  };

  LONGSTREAM_INLINE PanelSteps(const std::byte* panel, int64_t k)
      : runs_(panel + kUpperBytes),
        last_run_(MostRuns(k) - 1),
        next_(panel + FrontBytes(k)),
        left_(NumSteps(k)) {
    Enter(0);
  }

  // At most `most` of the steps that are left. REQUIRES: 0 < most, even or all that are left
  LONGSTREAM_INLINE Part Take(int64_t most) {
    while (in_run_ == 0) Enter(run_ + 1);
    const Part part{next_, in_run_ < most ? in_run_ : most, run_ % 2 == 0};
    in_run_ -= part.steps;
    left_ -= part.steps;
    next_ += part.steps * (part.compressed ? kCompressedStepBytes : kPlainStepBytes);
    return part;
  }

  LONGSTREAM_INLINE void Skip(int64_t steps) {
    while (steps > 0) steps -= Take(steps).steps;
  }

  int64_t left() const { return left_; }
  // Where the steps that are left begin; where none is, the end of the panel.
  const std::byte* next() const { return next_; }

 private:
  LONGSTREAM_INLINE void Enter(int64_t run) {
    run_ = run;
    uint32_t steps;
    __builtin_memcpy(&steps, runs_ + run * static_cast<int64_t>(sizeof(steps)), sizeof(steps));
    in_run_ = run < last_run_ ? steps : left_;
  }

  const std::byte* runs_;
  const int64_t last_run_;
  const std::byte* next_;
  int64_t left_;
  int64_t run_ = 0;
  int64_t in_run_ = 0;
};

// The number `number` of step `step` of a part of a panel, as a plain step counts them.
LONGSTREAM_INLINE BF16 NumberAt(const std::byte* panel, const PanelSteps::Part& part, int64_t step,
                                int64_t number) {
  if (!part.compressed) {
    BF16 plain;
    __builtin_memcpy(
        &plain, part.from + step * kPlainStepBytes + number * static_cast<int64_t>(sizeof(BF16)),
        sizeof(plain));
    return plain;
  }
  const std::byte* steps = part.from + step / 2 * 2 * kCompressedStepBytes;
  const int64_t place = PlaceOf(number);
  const auto name = (std::to_integer<unsigned>(steps[place]) >> (step % 2 * 4)) & 15;
  const std::byte lower = steps[kNibbleBytes + step % 2 * kStepNumbers + place];
  return {static_cast<uint16_t>(std::to_integer<unsigned>(panel[name]) << 8 |
                                std::to_integer<unsigned>(lower))};
}

#if defined(__AVX512BF16__)

// Numbers of compressed steps from their bytes.
class StepReader {
 public:
  LONGSTREAM_INLINE explicit StepReader(const std::byte* panel)
      : upper_bytes_(
            _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(panel)))) {}

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

 private:
  const __m512i upper_bytes_;
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_COMPRESSED_PANEL_H_
