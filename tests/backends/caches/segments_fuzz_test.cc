// Mutations of valid segments: each is imported or refused by name. The sanitizers detect anything
// worse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backends/caches/crc32c.h"
#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"
#include "tests/backends/caches/segment_bytes.h"
#include "tests/fuzz_trials.h"

namespace longstream {
namespace {

constexpr uint64_t kFingerprint = 42;
constexpr int64_t kContextLimit = 500;
constexpr int64_t kPosition = 200;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t Below(size_t limit) { return static_cast<size_t>(random_() % limit); }

  void Mutate(std::string* bytes) {
    if (bytes->empty()) bytes->push_back('\0');
    const size_t at = Below(bytes->size());
    switch (Below(8)) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
        break;
      case 1:
        bytes->erase(at, 1 + Below(100));
        break;
      case 2:
        bytes->insert(at, bytes->substr(Below(bytes->size()), 1 + Below(100)));
        break;
      case 3:
        bytes->resize(at);
        break;
      default:
        ChangeHeader(bytes);
    }
  }

  // Splits the stream into random pieces and imports it. Returns the code.
  ls_code Import(SnapshotMemoryPool& pool, const std::string& bytes) {
    try {
      CacheImport import(kPosition, kFingerprint, kContextLimit, pool);
      for (size_t begin = 0; begin < bytes.size();) {
        const size_t size = std::min(bytes.size() - begin, 1 + Below(5000));
        // An exact copy on the heap, so that reading one byte too far is caught.
        const std::vector<char> piece(bytes.begin() + static_cast<ptrdiff_t>(begin),
                                      bytes.begin() + static_cast<ptrdiff_t>(begin + size));
        import.Write(std::as_bytes(std::span(piece)));
        begin += size;
      }
      import.RequireComplete();
      import.Take();
      return LS_OK;
    } catch (const BackendError& error) {
      EXPECT_STRNE(error.what(), "");
      return error.code();
    }
  }

 private:
  // Changes a field of a segment's header and makes the checksum right, so that the mutation gets
  // past it.
  void ChangeHeader(std::string* bytes) {
    std::vector<size_t> headers;
    for (size_t at = bytes->find("LNSGSNAP"); at != std::string::npos;
         at = bytes->find("LNSGSNAP", at + 1)) {
      if (at + sizeof(SegmentHeader) <= bytes->size()) headers.push_back(at);
    }
    if (headers.empty()) return;
    const size_t at = headers[Below(headers.size())];
    SegmentHeader header;
    std::memcpy(&header, bytes->data() + at, sizeof(header));
    static constexpr uint64_t kNumbers[] = {
        0,   1,   2,   63,  64,       65,     128,   192,
        200, 256, 500, 512, 1u << 31, ~63ull, ~0ull, 0x7fffffffffffffffu};
    const uint64_t number = kNumbers[Below(std::size(kNumbers))];
    switch (Below(8)) {
      case 0:
        header.kind = static_cast<SegmentKind>(Below(4));
        break;
      case 1:
        header.num_blocks = static_cast<uint32_t>(number);
        break;
      case 2:
        header.begin = number;
        break;
      case 3:
        header.end = number;
        break;
      case 4:
        header.begin = header.end = number;
        break;
      case 5:
        header.page_type = static_cast<uint8_t>(number);
        break;
      case 6:
        header.version = static_cast<uint32_t>(number);
        break;
      default:
        header.layout ^= number;
    }
    header.crc = ExtendCrc32c(0, &header, offsetof(SegmentHeader, crc));
    std::memcpy(bytes->data() + at, &header, sizeof(header));
  }

  std::mt19937_64 random_;
};

TEST(SegmentsFuzzTest, MutationsAreImportedOrRefused) {
  CacheStore store(LayoutOf("full+window+recurrent+rerope+wide"), 0);
  SnapshotMemoryPool pool(store);
  std::vector<std::string> seeds;
  {
    const auto cache = Fed(store, FakeTokens(kPosition));
    const auto longer = Fed(store, FakeTokens(kPosition + 120));
    const std::string whole = SegmentsOf(*cache, pool, kFingerprint);
    CacheSnapshot snapshot(*longer, 0, kFingerprint, pool);
    const std::string span = ReadSegment(snapshot, SegmentKind::kSpan);
    const std::string tail = SegmentsOf(*cache, pool, kFingerprint, 128);
    seeds = {whole, span + SegmentsOf(*cache, pool, kFingerprint, 192), span + tail};
  }
  Mutator mutator(7);
  int imported = 0;
  int refused = 0;
  for (const std::string& seed : seeds) ASSERT_EQ(mutator.Import(pool, seed), LS_OK);
  FuzzTrials trials(3000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    const std::string& seed = seeds[mutator.Below(seeds.size())];
    std::string bytes = seed;
    for (size_t count = mutator.Below(4); count > 0; --count) mutator.Mutate(&bytes);
    const ls_code code = mutator.Import(pool, bytes);
    EXPECT_TRUE(code == LS_OK || code == LS_DATA_LOSS || code == LS_FAILED_PRECONDITION ||
                code == LS_INVALID_ARGUMENT)
        << code;
    ++(code == LS_OK ? imported : refused);
    ASSERT_EQ(store.budget.reserved(), 0u);
  }
  // Both outcomes must occur, else the mutations test nothing.
  EXPECT_GT(imported, trials.count() / 10);
  EXPECT_GT(refused, trials.count() / 3);
}

}  // namespace
}  // namespace longstream
