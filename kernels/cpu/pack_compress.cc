// Compressing packed bf16 weights in their place. See kernels/ops/pack.h and compressed_panel.h.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/compressed_panel.h"
#include "kernels/cpu/isa_ops.h"
#include "kernels/ops/pack.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

#if defined(__AVX512BF16__)

// Fewer steps in a row stay plain: interrupting the sums of a product costs more than reading them.
constexpr int64_t kLeastSteps = 16;

struct TwoSteps {
  alignas(64) std::byte bytes[2 * kCompressedStepBytes];
};

// The bytes of a step's numbers, upper or lower, each at its PlaceOf.
struct StepBytes {
  __m512i upper;
  __m512i lower;
};

LONGSTREAM_INLINE StepBytes BytesOf(const std::byte* step) {
  const __m512i first = _mm512_loadu_si512(step);
  const __m512i second = _mm512_loadu_si512(step + kLineBytes);
  const __m512i low = _mm512_set1_epi16(0xff);
  return {_mm512_packus_epi16(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8)),
          _mm512_packus_epi16(_mm512_and_si512(first, low), _mm512_and_si512(second, low))};
}

// The upper bytes that most of a panel's numbers have; of equally frequent ones the smallest.
void FindUpperBytes(const std::byte* steps, int64_t num_steps,
                    uint8_t (&upper_bytes)[kUpperBytes]) {
  // Numbers next to each other are counted apart: mostly they are equal, and a counter that was
  // just stored is slow to come back.
  uint32_t counts[4][256] = {};
  for (int64_t s = 0; s < num_steps; ++s) {
    alignas(64) uint8_t upper[kStepNumbers];
    _mm512_store_si512(upper, BytesOf(steps + s * kPlainStepBytes).upper);
    for (int64_t i = 0; i < kStepNumbers; i += 4) {
      for (int64_t c = 0; c < 4; ++c) ++counts[c][upper[i + c]];
    }
  }
  int64_t of_byte[256];
  for (int64_t b = 0; b < 256; ++b) {
    of_byte[b] = int64_t{counts[0][b]} + counts[1][b] + counts[2][b] + counts[3][b];
  }
  for (uint8_t& upper_byte : upper_bytes) {
    int64_t most = 0;
    for (int64_t b = 1; b < 256; ++b) {
      if (of_byte[b] > of_byte[most]) most = b;
    }
    upper_byte = static_cast<uint8_t>(most);
    of_byte[most] = -1;  // taken
  }
}

// Two plain steps as compressed ones. False: a number has none of the upper bytes.
LONGSTREAM_INLINE bool CompressSteps(const uint8_t (&upper_bytes)[kUpperBytes],
                                     const std::byte* steps, TwoSteps* to) {
  __m512i nibbles = _mm512_setzero_si512();
  for (int s = 0; s < 2; ++s) {
    const auto [upper, lower] = BytesOf(steps + s * kPlainStepBytes);
    __m512i names = _mm512_setzero_si512();
    __mmask64 named = 0;
    for (int i = 0; i < kUpperBytes; ++i) {
      const __mmask64 equal =
          _mm512_cmpeq_epi8_mask(upper, _mm512_set1_epi8(static_cast<char>(upper_bytes[i])));
      names = _mm512_mask_mov_epi8(names, equal, _mm512_set1_epi8(static_cast<char>(i)));
      named |= equal;
    }
    if (~named != 0) return false;
    nibbles = _mm512_or_si512(nibbles, s == 0 ? names : _mm512_slli_epi16(names, 4));
    _mm512_store_si512(to->bytes + kNibbleBytes + s * kStepNumbers, lower);
  }
  _mm512_store_si512(to->bytes, nibbles);
  return true;
}

// Writes the steps of a plain panel anew, from the first to the last: what is written lies before
// what is still to be read.
class PanelCompressor {
 public:
  PanelCompressor(std::byte* panel, int64_t k)
      : runs_(panel + kUpperBytes),
        last_run_(MostRuns(k) - 1),
        read_(panel + FrontBytes(k)),
        write_(panel + FrontBytes(k)),
        left_(NumSteps(k)) {
    FindUpperBytes(read_, left_, upper_bytes_);
    std::memcpy(panel, upper_bytes_, sizeof(upper_bytes_));
  }

  // Returns the end of the panel.
  std::byte* Run() {
    for (int64_t run = 0; left_ > 0; run += 2) {
      Name(run, Compress());
      Name(run + 1, Keep(run + 1 == last_run_ ? left_ : StepsToKeep()));
    }
    return write_;
  }

 private:
  void Name(int64_t run, int64_t steps) {
    const auto named = static_cast<uint32_t>(steps);
    std::memcpy(runs_ + run * static_cast<int64_t>(sizeof(named)), &named, sizeof(named));
  }

  // Of the next kLeastSteps steps from `first` on, how many can be compressed until two cannot.
  int64_t CompressibleSteps(int64_t first) const {
    TwoSteps ignored;
    int64_t count = 0;
    while (count < kLeastSteps && first + count + 2 <= left_ &&
           CompressSteps(upper_bytes_, read_ + (first + count) * kPlainStepBytes, &ignored)) {
      count += 2;
    }
    return count;
  }

  int64_t StepsToKeep() const {
    int64_t steps = 0;
    while (steps < left_) {
      const int64_t compressible = CompressibleSteps(steps);
      if (compressible == kLeastSteps) return steps;
      steps += compressible + 2;  // the two that cannot be
    }
    return left_;
  }

  int64_t Keep(int64_t steps) {
    std::memmove(write_, read_, static_cast<size_t>(steps * kPlainStepBytes));
    write_ += steps * kPlainStepBytes;
    Advance(steps);
    return steps;
  }

  int64_t Compress() {
    if (CompressibleSteps(0) < kLeastSteps) return 0;
    int64_t count = 0;
    TwoSteps two;
    while (left_ >= 2 && CompressSteps(upper_bytes_, read_, &two)) {
      std::memcpy(write_, two.bytes, sizeof(two.bytes));
      write_ += sizeof(two.bytes);
      Advance(2);
      count += 2;
    }
    return count;
  }

  void Advance(int64_t steps) {
    read_ += steps * kPlainStepBytes;
    left_ -= steps;
  }

  uint8_t upper_bytes_[kUpperBytes];
  std::byte* const runs_;
  const int64_t last_run_;
  const std::byte* read_;
  std::byte* write_;
  int64_t left_;  // steps from read_ on
};

LONGSTREAM_INLINE uint32_t Lines(int64_t bytes) {
  return static_cast<uint32_t>(bytes / kLineBytes);
}

// Moves panels together of which lines[p] tells the length, and says there where they begin.
void CloseGaps(const CompressArgs& args, uint32_t* lines) {
  auto* weight = static_cast<std::byte*>(args.packed);
  std::byte* const end = weight + PackedBytes(DType::kBF16, args.n, args.k);
  std::byte* to = weight + IndexBytes(args.n);
  const std::byte* from = to;
  for (int64_t p = 0; p < NumPanels(args.n); ++p) {
    const int64_t bytes = int64_t{lines[p]} * kLineBytes;
    std::memmove(to, from, static_cast<size_t>(bytes));
    lines[p] = Lines(to - weight);
    from += MostPanelBytes(args.k);
    to += bytes;
  }
  std::memset(to, 0, static_cast<size_t>(end - to));
}

void CompressBF16(const Executor& executor, const CompressArgs& args) {
  auto* weight = static_cast<std::byte*>(args.packed);
  auto* lines = static_cast<uint32_t*>(args.packed);
  ParallelFor(executor, static_cast<uint32_t>(NumPanels(args.n)), [&](uint32_t p) {
    std::byte* panel = weight + IndexBytes(args.n) + p * MostPanelBytes(args.k);
    lines[p] = Lines(PanelCompressor(panel, args.k).Run() - panel);
  });
  CloseGaps(args, lines);
}

#endif

}  // namespace

void Compress(const Executor& executor, const CompressArgs& args) {
#if defined(__AVX512BF16__)
  if (args.type == DType::kBF16) CompressBF16(executor, args);
#else
  static_cast<void>(executor);
  static_cast<void>(args);
#endif
}

size_t ReadBytes(const PackedWeight& weight) {
  const size_t bytes = PackedBytes(weight.type, weight.n, weight.k);
  if (!kCompressesBF16 || weight.type != DType::kBF16 || weight.n == 0) return bytes;
  PanelSteps last(PanelAt(weight, NumPanels(weight.n) - 1), weight.k);
  while (last.left() > 0) last.Take(last.left());
  return static_cast<size_t>(last.next() - static_cast<const std::byte*>(weight.data));
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
