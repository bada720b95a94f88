// Sealed files with random damage. No byte comes out that was not sealed, and nothing crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "service/sealing/block_kind.h"
#include "service/sealing/sealed_block.h"
#include "service/sealing/sealer.h"
#include "service/sealing/unsealer.h"
#include "tests/fuzz_trials.h"
#include "tests/service/sealing/sealed_bytes.h"

namespace longstream {
namespace {

using Random = std::mt19937_64;
constexpr std::string_view kContext = "fuzz";

// Changes some bytes, removes some, or repeats some.
void Damage(Random& random, std::string* bytes) {
  if (bytes->empty()) return;
  const size_t at = random() % bytes->size();
  const size_t size = std::min<size_t>(1 + random() % 300, bytes->size() - at);
  switch (random() % 5) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
      break;
    case 1:
      for (size_t i = at; i < at + size; ++i) (*bytes)[i] = static_cast<char>(random());
      break;
    case 2:
      bytes->erase(at, size);
      break;
    case 3:
      bytes->insert(at, bytes->substr(random() % bytes->size(), size));
      break;
    default:
      bytes->resize(at);
  }
}

// Opens `sealed` in random pieces. Whatever comes out must be the beginning of `bytes`; all of it
// comes out only if the file is complete.
void ExpectOnlyTheBeginning(Random& random, const Sealing& sealing, std::string_view sealed,
                            const std::string& bytes) {
  Unsealer unsealer(sealing.keys, kContext);
  std::string opened;
  while (!sealed.empty()) {
    const size_t piece = std::min<size_t>(1 + random() % 100'000, sealed.size());
    unsealer.Add(sealed.substr(0, piece));
    sealed.remove_prefix(piece);
    while (true) {
      const auto block = unsealer.Next();
      if (block.ok() && block->has_value()) {
        opened += **block;
        continue;
      }
      ASSERT_TRUE(bytes.starts_with(opened));
      if (!block.ok()) return;
      break;
    }
  }
  if (unsealer.Finish().ok()) {
    ASSERT_TRUE(opened == bytes);
  }
}

TEST(SealingFuzzTest, NoDamagedFileGivesOtherBytes) {
  Random random(30);
  FuzzTrials trials(1000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    const Sealing sealing =
        SealingWith("ab", random() % 2 == 0 ? Compression::kNone : Compression::kZstd);
    const size_t size = random() % (random() % 4 == 0 ? 200'000 : 2000);
    const std::string bytes = SomeBytes(size, random(), random() % 2 == 0);
    std::string sealed = Seal(sealing, kContext, bytes);
    for (size_t n = random() % 3; n > 0; --n) Damage(random, &sealed);
    ASSERT_NO_FATAL_FAILURE(ExpectOnlyTheBeginning(random, sealing, sealed, bytes));
  }
}

// Somebody with the key seals blocks of any contents.
TEST(SealingFuzzTest, BlocksOfAnyContentsNeverInflateToMoreThanABlock) {
  Random random(31);
  FuzzTrials trials(1000);
  const Sealing sealing = SealingWith("a", Compression::kZstd);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    // A compressed block with damage, sealed again.
    std::string block(1, random() % 8 == 0 ? static_cast<char>(random()) : kZstdBlock);
    BlockCompressor compressor;
    const std::string bytes = SomeBytes(random() % kSealedBlockBytes, random(), true);
    std::string compressed(1000, '\0');
    compressed.resize(compressor.Compress(bytes, compressed.data(), compressed.size()).value_or(0));
    for (size_t n = random() % 3; n > 0; --n) Damage(random, &compressed);
    block += compressed;
    std::string sealed = NewSealedHeader(sealing.keys->first());
    const BlockCipher cipher(&sealing.keys->first(), sealed, kContext);
    cipher.Seal({.index = 0, .is_last = true}, block, &sealed);
    const auto opened = Unseal(sealing.keys, kContext, sealed);
    if (opened.ok()) {
      ASSERT_LE(opened->size(), kSealedBlockBytes);
    }
  }
}

}  // namespace
}  // namespace longstream
