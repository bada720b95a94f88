// Compresses packed bf16 weights in place (kernels/ops/gemm/pack.h, compressed_panel.h).
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/gemm/compressed_panel.h"
#include "kernels/cpu/isa_ops.h"
#include "kernels/ops/gemm/pack.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

#if defined(__AVX2__)

#if defined(__AVX512F__)
// The upper or lower bytes of the numbers of two registers. In each 16 bytes of the result, the
// bytes of `a` come first.
LONGSTREAM_INLINE NativeBytes UpperBytes(NativeBytes a, NativeBytes b) {
  return _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
}
LONGSTREAM_INLINE NativeBytes LowerBytes(NativeBytes a, NativeBytes b) {
  const __m512i low = _mm512_set1_epi16(0xff);
  return _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low));
}
// Bit i is the highest bit of byte i.
LONGSTREAM_INLINE uint64_t HighestBits(NativeBytes bytes) { return _mm512_movepi8_mask(bytes); }
#else
LONGSTREAM_INLINE NativeBytes UpperBytes(NativeBytes a, NativeBytes b) {
  return _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
}
LONGSTREAM_INLINE NativeBytes LowerBytes(NativeBytes a, NativeBytes b) {
  const __m256i low = _mm256_set1_epi16(0xff);
  return _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
}
LONGSTREAM_INLINE uint64_t HighestBits(NativeBytes bytes) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
}
#endif

// REQUIRES: all bytes are below 16
LONGSTREAM_INLINE NativeBytes ShiftToHighNibbles(NativeBytes bytes) { return bytes << 4; }

LONGSTREAM_INLINE void StoreBytes(NativeBytes bytes, void* to) {
  __builtin_memcpy(to, &bytes, sizeof(bytes));
}

// The upper and the lower bytes of a column's numbers, each at its PlaceOf, counted from the
// column's beginning.
struct ColumnBytes {
  NativeBytes upper;
  NativeBytes lower;
};

LONGSTREAM_INLINE ColumnBytes BytesOf(const std::byte* step, int64_t column) {
  const std::byte* numbers = step + column * 2 * kColumnNumbers;
  const NativeBytes first = LoadBytes(numbers);
  const NativeBytes second = LoadBytes(numbers + kColumnNumbers);
  return {UpperBytes(first, second), LowerBytes(first, second)};
}

// Finds the 16 most frequent upper bytes of a panel's numbers. Of equally frequent bytes, the
// smaller ones count.
void FindUpperBytes(const std::byte* steps, int64_t num_steps,
                    uint8_t (&upper_bytes)[kUpperBytes]) {
  // Neighbouring numbers are counted in separate tables. Mostly their upper bytes are equal, and a
  // counter that was just written is slow to read again.
  uint32_t counts[4][256] = {};
  for (int64_t s = 0; s < num_steps; ++s) {
    alignas(64) uint8_t upper[kStepNumbers];
    for (int64_t c = 0; c < kColumns; ++c) {
      StoreBytes(BytesOf(steps + s * kPlainStepBytes, c).upper, upper + c * kColumnNumbers);
    }
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

// The nibbles of a column's numbers, a byte each. `named` has a bit for each number whose upper
// byte a nibble can name. The other numbers have the nibble 0.
struct ColumnNames {
  NativeBytes names;
  uint64_t named;
};

LONGSTREAM_INLINE ColumnNames NamesOf(const uint8_t (&upper_bytes)[kUpperBytes],
                                      NativeBytes upper) {
  typedef uint8_t Lanes __attribute__((vector_size(sizeof(NativeBytes))));
  const auto of_number = reinterpret_cast<Lanes>(upper);
  Lanes names = {}, named = {};
  for (uint8_t i = 0; i < kUpperBytes; ++i) {
    const auto equal = reinterpret_cast<Lanes>(of_number == upper_bytes[i]);
    names |= equal & i;
    named |= equal;
  }
  return {reinterpret_cast<NativeBytes>(names), HighestBits(reinterpret_cast<NativeBytes>(named))};
}

// Has a bit for each output that has a number at one of `places`.
LONGSTREAM_INLINE uint32_t OutputsAt(uint64_t places) {
  uint32_t outputs = 0;
  for (int64_t number = 0; number < kStepNumbers; ++number) {
    if ((places >> PlaceOf(number) & 1) != 0) outputs |= 1u << number / kStepInputs;
  }
  return outputs;
}

// Compresses a plain panel in place. It writes only to bytes that it has read before.
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

  // Collects the patches. Returns false if there are too many.
  bool FindPatches() {
    for (int64_t s = 0; s < num_steps_; ++s) {
      uint64_t named = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        named |= NamesOf(front_.upper_bytes, BytesOf(Step(s), c).upper).named << c * kColumnNumbers;
      }
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

  // Compresses two steps. Reads both before it writes anything, because the nibbles are written
  // over them.
  void CompressSteps(const std::byte* from, std::byte* to) const {
    NativeBytes nibbles[kColumns], lower[2][kColumns];
    for (int64_t c = 0; c < kColumns; ++c) {
      const ColumnBytes first = BytesOf(from, c), second = BytesOf(from + kPlainStepBytes, c);
      nibbles[c] = NamesOf(front_.upper_bytes, first.upper).names |
                   ShiftToHighNibbles(NamesOf(front_.upper_bytes, second.upper).names);
      lower[0][c] = first.lower;
      lower[1][c] = second.lower;
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      std::byte* column = to + c * kColumnNumbers;
      StoreBytes(nibbles[c], column);
      StoreBytes(lower[0][c], column + kNibbleBytes);
      StoreBytes(lower[1][c], column + kNibbleBytes + kStepNumbers);
    }
  }

  std::byte* const panel_;
  const int64_t num_steps_;
  PanelFront front_ = {};
  Patch patches_[kMostPatches];
};

LONGSTREAM_INLINE uint32_t Lines(int64_t bytes) {
  return static_cast<uint32_t>(bytes / kLineBytes);
}

// Moves the panels together, so that no gaps are between them. On entry lines[p] is the length of
// panel p, on return it is the panel's beginning. Both are in lines.
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
#if defined(__AVX2__)
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
