// The sections of the page that have charts, each with a table of the same values.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAGE_SECTIONS_H_
#define LONGSTREAM_CLIENT_COMPARE_PAGE_SECTIONS_H_

#include <string>

#include "client/compare/analysis.h"
#include "client/compare/observations.h"

namespace longstream::client {

// KL and agreement by the position of the token; empty if no pair has such values.
std::string PositionSection(const Comparison& comparison, const Analysis& analysis);

// The costs and the agreement of each pair, by the length of the prompt.
std::string LengthSection(const Comparison& comparison, const Analysis& analysis);

// The distributions of the latencies of all arms.
std::string LatencySection(const Comparison& comparison, const Analysis& analysis);

// The bytes of a session by its length.
std::string MemorySection(const Comparison& comparison, const Analysis& analysis);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAGE_SECTIONS_H_
