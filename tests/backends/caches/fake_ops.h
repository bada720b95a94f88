// Ops for tests of the caches: they write what the real ones write, where they write it, but the
// numbers are the token ids themselves, so that what a cache holds can be read back and compared
// with a history.
#ifndef LONGSTREAM_TESTS_BACKENDS_CACHES_FAKE_OPS_H_
#define LONGSTREAM_TESTS_BACKENDS_CACHES_FAKE_OPS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/caches/sequence_cache.h"

namespace longstream {

// Layer plans, small and odd: "full", "rerope", "window", "recurrent", and "wide" and
// "wide_window", whose values have three slices, joined by '+'. A window is 5 tokens wide in the
// first window layer and 20 in later ones; ReRoPE's 9.
CacheLayout LayoutOf(const std::string& plan);

// Token ids are below this, so that every sum that a state holds is exact in f32.
inline constexpr int32_t kMaxFakeToken = 1000;

// Appends tokens and writes all caches as a step would.
void FakeStep(SequenceCache& cache, std::span<const int32_t> tokens);
// The same for a step that fails afterwards.
void FakeFailedStep(SequenceCache& cache, std::span<const int32_t> tokens);
// As the decoder rebuilds near rings; does nothing where they are not stale.
void FakeRebuild(SequenceCache& cache);

// "" where the next step would read exactly what `history` [position] has put there; else what is
// wrong, the first difference.
std::string Difference(const SequenceCache& cache, std::span<const int32_t> history);

// A sequence with a reservation, and that many tokens fed in pieces of several lengths.
std::unique_ptr<SequenceCache> Fed(CacheStore& store, std::span<const int32_t> tokens,
                                   int64_t reserve_more = 0);

// Token ids that differ, the same for the same seed.
std::vector<int32_t> FakeTokens(size_t count, uint32_t seed = 1);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CACHES_FAKE_OPS_H_
