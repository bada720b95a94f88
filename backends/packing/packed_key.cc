// The key of packed weights.
#include "backends/packing/packed_key.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <vector>

#include "backends/checkpoint/gguf_blocks.h"
#include "backends/errors/quote.h"
#include "backends/packing/fingerprint.h"
#include "kernels/core/quantise.h"

namespace longstream {
namespace {

constexpr size_t kSamples = 64;
constexpr size_t kSampleBytes = 4096;

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
  return text;
}

// A hash of samples of the bytes behind the header.
uint64_t SampleHash(const TensorFile& file) {
  const uint64_t begin = file.front().size();
  const uint64_t bytes = file.stamp().bytes - begin;
  std::vector<std::byte> piece;
  const auto hash_of = [&](uint64_t offset, uint64_t count) {
    piece.resize(count);
    file.Read(begin + offset, piece, Executor());
    return HashBytes(piece, Executor());
  };
  if (bytes <= kSamples * kSampleBytes) return hash_of(0, bytes);
  uint64_t hash = bytes;
  for (size_t i = 0; i < kSamples; ++i) {
    // The first sample is at the beginning, the last one at the end.
    hash = HashAppend(hash, hash_of((bytes - kSampleBytes) * i / (kSamples - 1), kSampleBytes));
  }
  return hash;
}

// Numbers of many magnitudes, so that rounding and scales meet ties and extremes.
std::vector<float> ProbeWeights(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525 + 1013904223;  // Numerical Recipes
    const auto magnitude = static_cast<float>(state >> 8 & 0xfff) / 4096.0f;
    number = (state >> 31 != 0 ? -magnitude : magnitude) * ((state >> 20 & 7) == 0 ? 4.0f : 1.0f);
  }
  return numbers;
}

// The groups of rows of numbers.
std::vector<WeightGroup> ProbeGroups(DType type, const std::vector<float>& numbers,
                                     int64_t columns) {
  std::vector<WeightGroup> groups;
  const auto size = static_cast<int64_t>(numbers.size());
  for (int64_t row = 0; row < size; row += columns) {
    for (int64_t begin = 0; begin < columns; begin += kGroupInputs) {
      groups.push_back(QuantiseGroup(type, numbers.data() + row + begin,
                                     std::min(kGroupInputs, columns - begin)));
    }
  }
  return groups;
}

}  // namespace

std::string SourceLine(const TensorFile& file) {
  const FileStamp& stamp = file.stamp();
  return "file " + Quoted(std::filesystem::path(file.path()).filename().string()) + " of " +
         std::to_string(stamp.bytes) + " bytes, written " + std::to_string(stamp.written_ns) +
         ", changed " + std::to_string(stamp.changed_ns) + ", header " +
         Hex(HashBytes(file.front(), Executor())) + ", samples " + Hex(SampleHash(file));
}

std::string LayoutLine(const OpTable& ops) {
  // kRows is no multiple of a panel's rows, and kInputs is no multiple of a group's inputs.
  constexpr int64_t kRows = 72;
  constexpr int64_t kInputs = 200;
  const std::vector<float> probe = ProbeWeights(kRows * kInputs);
  std::vector<F16> half(probe.size());
  std::transform(probe.begin(), probe.end(), half.begin(), [](float x) { return ToF16(x); });
  const std::vector<WeightGroup> bytes = ProbeGroups(DType::kI8, probe, kInputs);
  const std::vector<WeightGroup> halves = ProbeGroups(DType::kI4, probe, kInputs);
  const struct {
    DType type;
    const void* source;
    DType source_type;
  } packs[] = {
      {DType::kF32, probe.data(), DType::kF32},  {DType::kF16, half.data(), DType::kF16},
      {DType::kBF16, probe.data(), DType::kF32}, {DType::kI8, probe.data(), DType::kF32},
      {DType::kI4, probe.data(), DType::kF32},   {DType::kI8, bytes.data(), DType::kI8},
      {DType::kI8, halves.data(), DType::kI4},   {DType::kI4, halves.data(), DType::kI4},
  };
  uint64_t hash = 0;
  for (const auto& pack : packs) {
    struct alignas(64) Line {
      std::array<std::byte, 64> bytes;
    };
    const size_t size = ops.packed_bytes(pack.type, kRows, kInputs);
    std::vector<Line> packed((size + sizeof(Line) - 1) / sizeof(Line));
    ops.pack(Executor(), {.source = pack.source,
                          .source_type = pack.source_type,
                          .num_rows = kRows,
                          .destination = packed.data(),
                          .type = pack.type,
                          .n = kRows,
                          .k = kInputs});
    ops.compress(Executor(), {packed.data(), pack.type, kRows, kInputs});
    hash = HashAppend(hash, HashBytes(std::as_bytes(std::span(packed)).first(size), Executor()));
  }
  return "layout " + Hex(hash);
}

std::string BlocksLine() {
  constexpr size_t kBlocks = 16;
  uint64_t hash = 0;
  for (const GgufBlocks& type : AllGgufBlocks()) {
    const auto bytes = static_cast<size_t>(type.bytes);
    const auto elements = static_cast<size_t>(type.elements);
    std::vector<std::byte> blocks(kBlocks * bytes);
    uint32_t state = 1;
    for (std::byte& byte : blocks) {
      state = state * 1664525 + 1013904223;  // Numerical Recipes
      byte = static_cast<std::byte>(state >> 24);
    }
    std::vector<float> numbers(elements);
    std::vector<WeightGroup> groups(elements / kGroupInputs);
    hash = HashAppend(hash, type.name);
    for (size_t block = 0; block < kBlocks; ++block) {
      const std::byte* const place = blocks.data() + block * bytes;
      type.numbers(place, numbers.data());
      // The bits of a NaN may differ between processors.
      if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) {
        continue;
      }
      GroupsOfBlocks(type, place, 1, groups.data());
      hash = HashAppend(hash, HashBytes(std::as_bytes(std::span(numbers)), Executor()));
      hash = HashAppend(hash, HashBytes(std::as_bytes(std::span(groups)), Executor()));
    }
  }
  return "blocks " + Hex(hash);
}

std::string PackedKey(const Checkpoint& checkpoint, const OpTable& ops,
                      const std::string& recipes) {
  std::string key = "longstream " LONGSTREAM_VERSION "\nops " + std::string(ops.name) + "\n" +
                    LayoutLine(ops) + "\n" + BlocksLine() + "\n";
  for (const auto& file : checkpoint.files()) key += SourceLine(*file) + "\n";
  return key + recipes;
}

std::string DifferenceOf(const std::string& expected, const std::string& found) {
  const auto [mine, theirs] =
      std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  const auto line_at = [](const std::string& text, std::string::const_iterator place) {
    const auto offset = static_cast<size_t>(place - text.begin());
    const size_t newline = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  return "expected '" + line_at(expected, mine) + "', found '" + line_at(found, theirs) + "'";
}

}  // namespace longstream
