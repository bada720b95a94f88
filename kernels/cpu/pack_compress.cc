// Compressing packed bf16 weights in their place. See kernels/ops/pack.h and compressed_panel.h.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/compressed_panel.h"
#include "kernels/cpu/isa_ops.h"
#include "kernels/ops/pack.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

#if defined(__AVX512BF16__)

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

// Nibbles of a step's numbers, a byte each, and which of them have one. Those that have not are 0.
struct StepNames {
  __m512i names;
  __mmask64 named;
};

LONGSTREAM_INLINE StepNames NamesOf(const uint8_t (&upper_bytes)[kUpperBytes], __m512i upper) {
  StepNames step{_mm512_setzero_si512(), 0};
  for (int i = 0; i < kUpperBytes; ++i) {
    const __mmask64 equal =
        _mm512_cmpeq_epi8_mask(upper, _mm512_set1_epi8(static_cast<char>(upper_bytes[i])));
    step.names = _mm512_mask_mov_epi8(step.names, equal, _mm512_set1_epi8(static_cast<char>(i)));
    step.named |= equal;
  }
  return step;
}

// Which outputs have a number at one of `places`.
LONGSTREAM_INLINE uint32_t OutputsAt(__mmask64 places) {
  uint32_t outputs = 0;
  for (int64_t number = 0; number < kStepNumbers; ++number) {
    if ((places >> PlaceOf(number) & 1) != 0) outputs |= 1u << number / kStepInputs;
  }
  return outputs;
}

// Compresses a plain panel in its place: what is written lies before what is still to be read.
class PanelCompressor {
 public:
  PanelCompressor(std::byte* panel, int64_t k) : panel_(panel), num_steps_(NumSteps(k)) {
    FindUpperBytes(panel + kFrontBytes, num_steps_, front_.upper_bytes);
  }

  void Run() {
    if (num_steps_ % 2 != 0 || !FindPatches()) return;
    std::byte* to = panel_ + kFrontBytes;
    for (int64_t step = 0; step < num_steps_; step += 2) {
      CompressSteps(Step(step), to);
      to += 2 * kCompressedStepBytes;
    }
    const size_t bytes = front_.num_patches * sizeof(Patch);
    std::memcpy(to, patches_, bytes);
    std::memset(to + bytes, 0,
                static_cast<size_t>(WholeLines(static_cast<int64_t>(bytes))) - bytes);
    front_.compressed = 1;
    std::memcpy(panel_, &front_, sizeof(front_));
  }

 private:
  const std::byte* Step(int64_t step) const {
    return panel_ + kFrontBytes + step * kPlainStepBytes;
  }

  // False: there are too many.
  bool FindPatches() {
    for (int64_t s = 0; s < num_steps_; ++s) {
      const __mmask64 named = NamesOf(front_.upper_bytes, BytesOf(Step(s)).upper).named;
      if (~named == 0) continue;
      for (uint32_t outputs = OutputsAt(~named); outputs != 0; outputs &= outputs - 1) {
        if (front_.num_patches == MostPatches(num_steps_)) return false;
        const auto output = static_cast<int64_t>(std::countr_zero(outputs));
        Patch& patch = patches_[front_.num_patches++];
        patch.step_and_output = static_cast<uint32_t>(s * kPanelOutputs + output);
        std::memcpy(&patch.numbers, Step(s) + output * static_cast<int64_t>(sizeof(patch.numbers)),
                    sizeof(patch.numbers));
      }
    }
    return true;
  }

  void CompressSteps(const std::byte* from, std::byte* to) const {
    const auto [upper_0, lower_0] = BytesOf(from);
    const auto [upper_1, lower_1] = BytesOf(from + kPlainStepBytes);
    const __m512i names_1 = NamesOf(front_.upper_bytes, upper_1).names;
    _mm512_storeu_si512(to, _mm512_or_si512(NamesOf(front_.upper_bytes, upper_0).names,
                                            _mm512_slli_epi16(names_1, 4)));
    _mm512_storeu_si512(to + kNibbleBytes, lower_0);
    _mm512_storeu_si512(to + kNibbleBytes + kStepNumbers, lower_1);
  }

  std::byte* const panel_;
  const int64_t num_steps_;
  PanelFront front_ = {};
  Patch patches_[kMostPatches];
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
    PanelCompressor(panel, args.k).Run();
    lines[p] = Lines(PanelView(panel, args.k).bytes());
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
  const std::byte* last = PanelAt(weight, NumPanels(weight.n) - 1);
  return static_cast<size_t>(last + PanelView(last, weight.k).bytes() -
                             static_cast<const std::byte*>(weight.data));
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
