// Computes the numbers of ggml's blocks (ggml-common.h and ggml-quants.c of llama.cpp describe
// them). d, m: scales of a block in f16; q: its small integers; s, t: scales of 16 or 32 of them.
#include "backends/checkpoint/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

namespace longstream {
namespace {

constexpr int kHalf = 16;      // elements of half a block of 32
constexpr int kElements = 32;  // of a small block
constexpr int kSuper = 256;    // elements of a block of type K

uint8_t ByteAt(const std::byte* block, int64_t at) { return static_cast<uint8_t>(block[at]); }

F16 HalfAt(const std::byte* block, int64_t at) {
  F16 half;
  std::memcpy(&half, block + at, sizeof(half));
  return half;
}

float ScaleAt(const std::byte* block, int64_t at) { return ToF32(HalfAt(block, at)); }

int Low(uint8_t byte) { return byte & 0xf; }
int High(uint8_t byte) { return byte >> 4; }

// Q4_0: d | 16 bytes. Elements i and i + 16 are the halves of byte i.  x = d (q - 8)
WeightGroup GroupQ40(const std::byte* block) {
  WeightGroup group{HalfAt(block, 0), {}};
  for (int i = 0; i < kHalf; ++i) {
    const uint8_t pair = ByteAt(block, 2 + i);
    group.values[i] = static_cast<int8_t>(Low(pair) - 8);
    group.values[i + kHalf] = static_cast<int8_t>(High(pair) - 8);
  }
  return group;
}

// Q4_1: d | m | 16 bytes.  x = d q + m
void NumbersQ41(const std::byte* block, float* to) {
  const float d = ScaleAt(block, 0);
  const float m = ScaleAt(block, 2);
  for (int i = 0; i < kHalf; ++i) {
    const uint8_t pair = ByteAt(block, 4 + i);
    to[i] = d * static_cast<float>(Low(pair)) + m;
    to[i + kHalf] = d * static_cast<float>(High(pair)) + m;
  }
}

// The integers 0 ... 31 whose low bits are the halves of 16 bytes at `low` and whose fifth bits are
// those of 4 bytes at `high`.
void FiveBits(const std::byte* block, int64_t high, int64_t low, int8_t* to) {
  uint32_t fifth = 0;
  std::memcpy(&fifth, block + high, sizeof(fifth));
  for (int i = 0; i < kHalf; ++i) {
    const uint8_t pair = ByteAt(block, low + i);
    to[i] = static_cast<int8_t>(Low(pair) | static_cast<int>((fifth >> i & 1u) << 4));
    to[i + kHalf] =
        static_cast<int8_t>(High(pair) | static_cast<int>((fifth >> (i + kHalf) & 1u) << 4));
  }
}

// Q5_0: d | 4 bytes of fifth bits | 16 bytes.  x = d (q - 16)
WeightGroup GroupQ50(const std::byte* block) {
  WeightGroup group{HalfAt(block, 0), {}};
  FiveBits(block, 2, 6, group.values);
  for (int8_t& value : group.values) value = static_cast<int8_t>(value - 16);
  return group;
}

// Q5_1: d | m | 4 bytes of fifth bits | 16 bytes.  x = d q + m
void NumbersQ51(const std::byte* block, float* to) {
  const float d = ScaleAt(block, 0);
  const float m = ScaleAt(block, 2);
  std::array<int8_t, kElements> q;
  FiveBits(block, 4, 8, q.data());
  for (int i = 0; i < kElements; ++i) to[i] = d * static_cast<float>(q[i]) + m;
}

// Q8_0: d | 32 signed bytes.  x = d q
WeightGroup GroupQ80(const std::byte* block) {
  WeightGroup group{HalfAt(block, 0), {}};
  std::memcpy(group.values, block + 2, kElements);
  return group;
}

// IQ4_NL and IQ4_XS: four bits choose one of these numbers.
constexpr int8_t kChoices[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

// IQ4_NL: d | 16 bytes.  x = d kChoices[q]
WeightGroup GroupIq4Nl(const std::byte* block) {
  WeightGroup group{HalfAt(block, 0), {}};
  for (int i = 0; i < kHalf; ++i) {
    const uint8_t pair = ByteAt(block, 2 + i);
    group.values[i] = kChoices[Low(pair)];
    group.values[i + kHalf] = kChoices[High(pair)];
  }
  return group;
}

// IQ4_XS: d | 2 bytes: two high bits of eight s | 4 bytes: four low bits | 128 bytes.
//   x = d (s - 32) kChoices[q]
void NumbersIq4Xs(const std::byte* block, float* to) {
  const float d = ScaleAt(block, 0);
  const int high = ByteAt(block, 2) | ByteAt(block, 3) << 8;
  for (int part = 0; part < kSuper / kElements; ++part) {
    const int low = ByteAt(block, 4 + part / 2) >> (4 * (part % 2)) & 0xf;
    const int s = low | (high >> (2 * part) & 3) << 4;
    const float scale = d * static_cast<float>(s - 32);
    for (int i = 0; i < kHalf; ++i) {
      const uint8_t pair = ByteAt(block, 8 + part * kHalf + i);
      *(to + i) = scale * static_cast<float>(kChoices[Low(pair)]);
      *(to + i + kHalf) = scale * static_cast<float>(kChoices[High(pair)]);
    }
    to += kElements;
  }
}

// Calls element(i, two bits of q) for elements i of a block whose q are 64 bytes at `at`: bits 0
// and 1 of bytes 0 ... 31 are elements 0 ... 31, bits 2 and 3 are elements 32 ... 63, and so on;
// bytes 32 ... 63 are the second half of the block.
template <typename Element>
void ForEachTwoBits(const std::byte* block, int64_t at, const Element& element) {
  for (int i = 0; i < kSuper; ++i) {
    const int half = i / 128;
    const int shift = i % 128 / kElements * 2;
    element(i, ByteAt(block, at + half * kElements + i % kElements) >> shift & 3);
  }
}

// Q2_K: 16 bytes: s in the low half, t in the high half, for 16 elements each | 64 bytes | d | m.
//   x = d s q - m t
void NumbersQ2K(const std::byte* block, float* to) {
  const float d = ScaleAt(block, 80);
  const float m = ScaleAt(block, 82);
  ForEachTwoBits(block, 16, [&](int i, int q) {
    const uint8_t scales = ByteAt(block, i / 16);
    const float scale = d * static_cast<float>(Low(scales));
    to[i] = scale * static_cast<float>(q) - m * static_cast<float>(High(scales));
  });
}

// Q3_K: 32 bytes of third bits | 64 bytes | 12 bytes: 16 numbers s of six bits | d.
//   x = d (s - 32) (q - 4)
// Bit j of byte i of the third bits is that of element i + 32 j.
void NumbersQ3K(const std::byte* block, float* to) {
  const float d = ScaleAt(block, 108);
  std::array<float, 16> scales;
  for (int j = 0; j < 16; ++j) {
    const uint8_t pair = ByteAt(block, 96 + j % 8);
    const int low = j < 8 ? Low(pair) : High(pair);
    const int s = low | (ByteAt(block, 104 + j % 4) >> (2 * (j / 4)) & 3) << 4;
    scales[j] = d * static_cast<float>(s - 32);
  }
  ForEachTwoBits(block, 32, [&](int i, int q) {
    const int third = ByteAt(block, i % kElements) >> (i / kElements) & 1;
    to[i] = scales[i / 16] * static_cast<float>((q | third << 2) - 4);
  });
}

// Six-bit s and t of 32 elements each, in 12 bytes at `at`, of Q4_K and Q5_K.
struct ScaleAndMinimum {
  int s;
  int t;
};
ScaleAndMinimum SixBits(const std::byte* block, int64_t at, int j) {
  if (j < 4) return {ByteAt(block, at + j) & 63, ByteAt(block, at + j + 4) & 63};
  const uint8_t low = ByteAt(block, at + j + 4);
  return {Low(low) | ByteAt(block, at + j - 4) >> 6 << 4,
          High(low) | ByteAt(block, at + j) >> 6 << 4};
}

// Q4_K: d | m | 12 bytes of s and t | 128 bytes, and Q5_K: d | m | 12 bytes | 32 bytes of fifth
// bits | 128 bytes. The halves of 32 bytes are 64 elements: first the low halves.
//   x = d s q - m t
void NumbersQ45K(const std::byte* block, bool five, float* to) {
  const float d = ScaleAt(block, 0);
  const float m = ScaleAt(block, 2);
  const int64_t halves = five ? 48 : 16;
  for (int part = 0; part < kSuper / kElements; ++part) {
    const ScaleAndMinimum six = SixBits(block, 4, part);
    const float scale = d * static_cast<float>(six.s);
    const float minimum = m * static_cast<float>(six.t);
    for (int i = 0; i < kElements; ++i) {
      const uint8_t pair = ByteAt(block, halves + part / 2 * kElements + i);
      int q = part % 2 == 0 ? Low(pair) : High(pair);
      if (five) q |= (ByteAt(block, 16 + i) >> part & 1) << 4;
      to[part * kElements + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}
void NumbersQ4K(const std::byte* block, float* to) { NumbersQ45K(block, false, to); }
void NumbersQ5K(const std::byte* block, float* to) { NumbersQ45K(block, true, to); }

// Q6_K: 128 bytes of low halves | 64 bytes of bits 4 and 5 | 16 signed bytes s | d.
//   x = d s (q - 32)
// Each half of the block has 64 bytes of low halves: elements 0 ... 63 are the low halves of these,
// elements 64 ... 127 the high halves.
void NumbersQ6K(const std::byte* block, float* to) {
  const float d = ScaleAt(block, 208);
  for (int i = 0; i < kSuper; ++i) {
    const int half = i / 128;
    const int in_half = i % 128;
    const uint8_t pair = ByteAt(block, half * 64 + in_half % 64);
    const int low = in_half < 64 ? Low(pair) : High(pair);
    const int high =
        ByteAt(block, 128 + half * kElements + i % kElements) >> (2 * (in_half / kElements)) & 3;
    const auto s = static_cast<int8_t>(ByteAt(block, 192 + i / 16));
    to[i] = d * static_cast<float>(s) * static_cast<float>((low | high << 4) - 32);
  }
}

// The numbers of a block that is one group.
template <WeightGroup (*group)(const std::byte*)>
void NumbersOfGroup(const std::byte* block, float* to) {
  const WeightGroup values = group(block);
  const float scale = ToF32(values.scale);
  for (int i = 0; i < kElements; ++i) to[i] = scale * static_cast<float>(values.values[i]);
}

constexpr GgufBlocks kBlocks[] = {
    {"Q4_0", 32, 18, NumbersOfGroup<GroupQ40>, GroupQ40, DType::kI4},
    {"Q4_1", 32, 20, NumbersQ41},
    {"Q5_0", 32, 22, NumbersOfGroup<GroupQ50>, GroupQ50},
    {"Q5_1", 32, 24, NumbersQ51},
    {"Q8_0", 32, 34, NumbersOfGroup<GroupQ80>, GroupQ80},
    {"Q2_K", 256, 84, NumbersQ2K},
    {"Q3_K", 256, 110, NumbersQ3K},
    {"Q4_K", 256, 144, NumbersQ4K},
    {"Q5_K", 256, 176, NumbersQ5K},
    {"Q6_K", 256, 210, NumbersQ6K},
    {"IQ4_NL", 32, 18, NumbersOfGroup<GroupIq4Nl>, GroupIq4Nl},
    {"IQ4_XS", 256, 136, NumbersIq4Xs},
};

}  // namespace

std::span<const GgufBlocks> AllGgufBlocks() { return kBlocks; }

const GgufBlocks* FindGgufBlocks(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kBlocks), std::end(kBlocks),
                   [name](const GgufBlocks& blocks) { return blocks.name == name; });
  return found == std::end(kBlocks) ? nullptr : found;
}

void GroupsOfBlocks(const GgufBlocks& type, const std::byte* blocks, int64_t count,
                    WeightGroup* to) {
  std::array<float, kSuper> numbers;
  const int64_t groups = type.elements / kGroupInputs;
  for (int64_t block = 0; block < count; ++block) {
    const std::byte* const from = blocks + block * type.bytes;
    // No program writes -128 into a Q8_0, and int8 groups do not have it.
    if (type.group != nullptr) {
      to[block] = type.group(from);
      const auto& values = to[block].values;
      if (std::find(std::begin(values), std::end(values), INT8_MIN) == std::end(values)) continue;
    }
    type.numbers(from, numbers.data());
    QuantiseGroups(type.groups, numbers.data(), groups, to + block * groups);
  }
}

}  // namespace longstream
