// Ops for tests of the caches. They write to the same places as the real ops, but they write the
// token ids, so that a test can read a cache back and compare it with a history.
#ifndef LONGSTREAM_TESTS_BACKENDS_CACHES_FAKE_OPS_H_
#define LONGSTREAM_TESTS_BACKENDS_CACHES_FAKE_OPS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/caches/sequence_cache.h"

namespace longstream {

// Small, odd layers joined by '+': "full", "rerope", "window", "recurrent", and "wide" and
// "wide_window", whose values have three slices. The first window is 5 tokens wide, later ones 20;
// ReRoPE's is 9.
CacheLayout LayoutOf(const std::string& plan);

// Token ids are below this, so that f32 states hold their sums exactly.
inline constexpr int32_t kMaxFakeToken = 1000;

// Appends tokens and writes all caches as a step would.
void FakeStep(SequenceCache& cache, std::span<const int32_t> tokens);
// Writes the caches as FakeStep does, for a step that then fails.
void FakeFailedStep(SequenceCache& cache, std::span<const int32_t> tokens);
// Rebuilds stale near rings as the decoder does. Does nothing if they are not stale.
void FakeRebuild(SequenceCache& cache);

// "" if the next step would read exactly `history` [position]; else the first difference.
std::string Difference(const SequenceCache& cache, std::span<const int32_t> history);

// A sequence with a reservation, after `tokens` were fed in pieces of several lengths.
std::unique_ptr<SequenceCache> Fed(CacheStore& store, std::span<const int32_t> tokens,
                                   int64_t reserve_more = 0);

// Distinct token ids, the same for the same seed.
std::vector<int32_t> FakeTokens(size_t count, uint32_t seed = 1);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CACHES_FAKE_OPS_H_
