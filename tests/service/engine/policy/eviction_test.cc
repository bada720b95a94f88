// The order in which idle sessions lose their caches.
#include "service/engine/policy/eviction.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace longstream {
namespace {

const MonotonicTime kFirstUse = MonotonicTime::Now();

EvictionCandidate Candidate(uint64_t bytes, uint64_t prefill, uint64_t decode, int used_at,
                            bool is_leased = false) {
  return {bytes, {prefill, decode}, is_leased, kFirstUse + absl::Seconds(used_at)};
}

EvictionCandidate Stored(EvictionCandidate candidate, uint64_t bytes, uint64_t decode_behind = 0) {
  candidate.stored = RestoreOption{bytes, {0, decode_behind}};
  return candidate;
}

TEST(EvictionOrder, TheLeastCostPerByteGoesFirst) {
  struct Case {
    std::string name;
    std::vector<EvictionCandidate> candidates;
    std::vector<uint32_t> order;
    ReadingTimes times = {.prefill_token = 0.001, .decode_step = 0.01};
  };
  const Case cases[] = {
      {"no session", {}, {}},
      {"the longer history costs more",
       {Candidate(100, 90, 0, 1), Candidate(100, 30, 0, 2)},
       {1, 0}},
      {"the larger caches cost less per byte",
       {Candidate(100, 90, 0, 1), Candidate(900, 90, 0, 2)},
       {1, 0}},
      {"decode entries cost more than a prompt",
       {Candidate(100, 0, 90, 1), Candidate(100, 90, 0, 2)},
       {1, 0}},
      {"so they do while no time is measured",
       {Candidate(100, 0, 90, 1), Candidate(100, 90, 0, 2)},
       {1, 0},
       {}},
      {"if a decode step costs less than a token, prompts cost more",
       {Candidate(100, 90, 0, 1), Candidate(100, 0, 90, 2)},
       {1, 0},
       {.prefill_token = 0.01, .decode_step = 0.001}},
      {"equal costs: least recently used",
       {Candidate(100, 40, 0, 3), Candidate(100, 40, 0, 1), Candidate(100, 40, 0, 2)},
       {1, 2, 0}},
      {"nearly equal costs are equal",
       {Candidate(100, 41, 0, 3), Candidate(100, 40, 0, 4), Candidate(100, 42, 0, 1)},
       {2, 0, 1}},
      {"an empty history costs nothing",
       {Candidate(100, 40, 0, 1), Candidate(100, 0, 0, 2)},
       {1, 0}},
      {"caches that free nothing go last",
       {Candidate(0, 1, 0, 1), Candidate(100, 9000, 9000, 2)},
       {1, 0}},
      {"a snapshot is read faster than its tokens",
       {Candidate(100, 90, 0, 1), Stored(Candidate(100, 9000, 9000, 2), 1 << 20)},
       {1, 0}},
      {"tokens behind the snapshot are computed",
       {Candidate(100, 90, 0, 1), Stored(Candidate(100, 9000, 9000, 2), 1 << 20, 9000)},
       {0, 1}},
      {"a snapshot that takes longer than its tokens does not count",
       {Candidate(100, 90, 0, 1), Stored(Candidate(100, 30, 0, 2), uint64_t{1} << 40)},
       {1, 0}},
      {"a leased session goes after all others",
       {Candidate(100, 1, 0, 1, true), Candidate(100, 9000, 9000, 2)},
       {1, 0}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(EvictionOrder(c.candidates, {c.times, {}}), c.order);
  }
}

}  // namespace
}  // namespace longstream
