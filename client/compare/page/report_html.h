// The report of a comparison as a page.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAGE_REPORT_HTML_H_
#define LONGSTREAM_CLIENT_COMPARE_PAGE_REPORT_HTML_H_

#include <string>

#include "client/compare/analysis.h"
#include "client/compare/observations.h"

namespace longstream::client {

// Returns one HTML file that needs nothing else: no script, no network (its content security policy
// forbids both). Texts of models and prompts may hold any bytes. The first lines are the sentences
// of the pairs (PairSentence).
std::string ComparisonPage(const Comparison& comparison, const Analysis& analysis);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAGE_REPORT_HTML_H_
