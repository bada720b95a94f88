// The report of a comparison as JSON.
#ifndef LONGSTREAM_CLIENT_COMPARE_REPORT_JSON_H_
#define LONGSTREAM_CLIENT_COMPARE_REPORT_JSON_H_

#include <string>

#include "client/compare/analysis.h"
#include "client/compare/observations.h"

namespace longstream::client {

// Returns the report, indented, with a newline at the end. It is valid UTF-8: invalid bytes of
// texts become U+FFFD. Values that are not finite (no value, an unbounded interval) are null. The
// key "format" is 1; it grows when a key changes its meaning. docs/compare.md describes the keys.
std::string ComparisonJson(const Comparison& comparison, const Analysis& analysis);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_REPORT_JSON_H_
