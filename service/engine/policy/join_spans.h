// Decides which spans of a session's snapshots are written again as one.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_JOIN_SPANS_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_JOIN_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace longstream {

// A snapshot has at most so many spans, so that a restore opens few files.
inline constexpr size_t kMostSpans = 32;

// Each turn adds a span. `ends`: the ends of the spans that are in the store, ascending. `end`: of
// the new one. Returns how many of the spans stay; the new one begins behind them. They all stay
// until there are `most`. Then the new one also has the tokens of the last spans, each of which
// is no longer than what follows it. So short spans are joined, and a token is written again about
// as often as its session's length doubles, but not in each turn.
size_t SpansToKeep(std::span<const uint64_t> ends, uint64_t end, size_t most = kMostSpans);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_JOIN_SPANS_H_
