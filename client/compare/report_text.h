// The verdicts of a comparison as text for a terminal.
#ifndef LONGSTREAM_CLIENT_COMPARE_REPORT_TEXT_H_
#define LONGSTREAM_CLIENT_COMPARE_REPORT_TEXT_H_

#include <string>

#include "client/compare/analysis.h"
#include "client/compare/observations.h"

namespace longstream::client {

// Returns the sentence of each pair, then a table of verdicts for each pair. Names are copied as
// they are.
std::string ComparisonText(const Comparison& comparison, const Analysis& analysis);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_REPORT_TEXT_H_
