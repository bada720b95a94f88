// Checks that a sequence reaches nothing of an earlier sequence that had the same memory.
#ifndef LONGSTREAM_TESTS_BACKENDS_RUNTIME_REUSED_MEMORY_H_
#define LONGSTREAM_TESTS_BACKENDS_RUNTIME_REUSED_MEMORY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/core/device.h"
#include "tests/backends/runtime/model_driver.h"

namespace longstream {

// All bytes of the sequence's pages and slot, also those that it has not written.
inline std::string MemoryOf(Device& device, const ls_sequence& sequence) {
  const CacheStore& store = sequence.cache->store();
  std::string bytes;
  const auto append = [&](const std::byte* data, int64_t size) {
    std::string part(static_cast<size_t>(size), '\0');
    device.Download(part.data(), data, part.size());
    EXPECT_EQ(device.Synchronize(), OpStatus::kOk);
    bytes += part;
  };
  for (size_t i = 0; i < store.layout.layers.size(); ++i) {
    if (!store.layout.layers[i].paged) continue;
    const PagedLayout& paged = *store.layout.layers[i].paged;
    for (const int32_t page : sequence.cache->page_table()) {
      append(store.pages.keys(i, page), paged.key_bytes(store.layout.page_type));
      append(store.pages.values(i, page), paged.value_bytes(store.layout.page_type));
    }
  }
  if (store.layout.slot_stride > 0) {
    append(store.slots.data(sequence.cache->slot()), store.layout.slot_stride);
  }
  return bytes;
}

// All that a caller can learn from a sequence: logits, files, and memory that kernels can reach.
struct Seen {
  std::vector<float> logits;
  std::string exported;
  std::string segments;
  std::string memory;
  std::vector<int32_t> pages;
  int32_t slot = 0;
};

// Reads a prompt, decodes, and goes back a few tokens on the way.
inline Seen UseSequence(Model& model, Device& device, uint32_t seed, size_t prompt) {
  const auto sequence = CreateReserved(model, prompt + 16);
  model.MarkRollbackPoint(*sequence);
  Seen seen;
  seen.logits = Prefill(model, *sequence, RandomTokens(prompt, 71, seed));
  const auto more = [&](const std::vector<float>& logits) {
    seen.logits.insert(seen.logits.end(), logits.begin(), logits.end());
  };
  more(Decode(model, *sequence, RandomTokens(4, 71, seed + 1)));
  seen.memory = MemoryOf(device, *sequence);
  seen.exported = ExportBytes(model, *sequence);
  seen.segments = SegmentBytes(model, *sequence);
  const auto copy = ImportSegments(model, prompt + 4, seen.segments);
  seen.memory += MemoryOf(device, *copy);
  model.Truncate(*sequence, prompt + 2);
  more(Prefill(model, *sequence, RandomTokens(3, 71, seed + 2)));
  seen.exported += ExportBytes(model, *sequence);
  const auto table = sequence->cache->page_table();
  seen.pages.assign(table.begin(), table.end());
  seen.slot = sequence->cache->slot();
  return seen;
}

// `used` and `fresh` are equal models. A long sequence on `used`, and a fork of it, leave their
// memory to short ones, which must see the same as on `fresh`, where nobody was before them.
inline void ExpectNothingOfEarlierSequences(Model& used, Model& fresh, Device& device) {
  std::vector<int32_t> pages;
  int32_t slot = 0;
  {
    const auto earlier = CreateReserved(used, 250);
    Prefill(used, *earlier, RandomTokens(240, 71, 1));
    const auto fork = used.Fork(*earlier);
    used.Reserve(*fork, 10);
    Decode(used, *fork, RandomTokens(9, 71, 2));
    const auto table = earlier->cache->page_table();
    pages.assign(table.begin(), table.end());
    slot = earlier->cache->slot();
  }
  for (const size_t prompt : {size_t{1}, size_t{30}, size_t{70}}) {
    SCOPED_TRACE(prompt);
    const Seen found = UseSequence(used, device, 11, prompt);
    const Seen expected = UseSequence(fresh, device, 11, prompt);
    // The memory is that of the long sequence.
    EXPECT_EQ(found.slot, slot);
    ASSERT_LE(found.pages.size(), pages.size());
    EXPECT_TRUE(std::equal(found.pages.begin(), found.pages.end(), pages.begin()));
    EXPECT_TRUE(found.logits == expected.logits);
    EXPECT_TRUE(found.exported == expected.exported);
    EXPECT_TRUE(found.segments == expected.segments);
    EXPECT_TRUE(found.memory == expected.memory);
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_RUNTIME_REUSED_MEMORY_H_
