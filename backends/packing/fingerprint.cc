// A 64-bit hash of weights.
#include "backends/packing/fingerprint.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace longstream {
namespace {

// Odd constants with mixed bits: digits of pi.
constexpr uint64_t kPi[5] = {0x243f6a8885a308d3u, 0x13198a2e03707345u, 0xa4093822299f31d1u,
                             0x082efa98ec4e6c89u, 0x452821e638d01377u};

// The two halves of the 128-bit product, folded: every bit of a and b reaches every bit.
uint64_t Fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t Load(const std::byte* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// Hashes 64 bytes a step in four independent chains. A single chain would wait for its
// multiplications.
uint64_t HashPiece(std::span<const std::byte> bytes) {
  constexpr size_t kStep = 64;
  uint64_t chain[4] = {kPi[0], kPi[1], kPi[2], kPi[3]};
  const auto step = [&chain](const std::byte* from) {
    for (int c = 0; c < 4; ++c) {
      chain[c] = Fold(Load(from + 16 * c) ^ kPi[c], Load(from + 16 * c + 8) ^ chain[c]);
    }
  };
  size_t i = 0;
  for (; i + kStep <= bytes.size(); i += kStep) step(bytes.data() + i);
  if (i < bytes.size()) {
    std::byte rest[kStep] = {};
    std::memcpy(rest, bytes.data() + i, bytes.size() - i);
    step(rest);
  }
  uint64_t hash = HashAppend(kPi[4], bytes.size());
  for (const uint64_t c : chain) hash = HashAppend(hash, c);
  return hash;
}

}  // namespace

uint64_t HashAppend(uint64_t hash, uint64_t value) { return Fold(hash ^ kPi[0], value ^ kPi[4]); }

uint64_t HashAppend(uint64_t hash, std::string_view text) {
  return HashAppend(hash, HashPiece(std::as_bytes(std::span(text.data(), text.size()))));
}

uint64_t HashBytes(std::span<const std::byte> bytes, const Executor& executor) {
  RunningHash hash(bytes.size());
  hash.Add(bytes, executor);
  return hash.value();
}

void RunningHash::Add(std::span<const std::byte> run, const Executor& executor) {
  std::vector<uint64_t> pieces((run.size() + kPieceBytes - 1) / kPieceBytes);
  ParallelFor(executor, static_cast<uint32_t>(pieces.size()), [&](uint32_t i) {
    const size_t begin = i * kPieceBytes;
    pieces[i] = HashPiece(run.subspan(begin, std::min(kPieceBytes, run.size() - begin)));
  });
  for (const uint64_t piece : pieces) hash_ = HashAppend(hash_, piece);
}

}  // namespace longstream
