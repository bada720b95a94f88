// A comparison as a real one would be, for tests of reports.
#ifndef LONGSTREAM_TESTS_CLIENT_COMPARE_EXAMPLE_COMPARISON_H_
#define LONGSTREAM_TESTS_CLIENT_COMPARE_EXAMPLE_COMPARISON_H_

#include <cstddef>

#include "client/compare/observations.h"

namespace longstream::client {

// Three arms on `prompts` prompts of 256, 1024 and 4096 tokens in turn, each with 64 forced tokens.
// `dense` is the baseline. `hwfa2` nearly equals it. `hypenet` differs more with every token, needs
// a fraction of the bytes and is faster. It is the same every time.
Comparison ExampleComparison(size_t prompts);

}  // namespace longstream::client

#endif  // LONGSTREAM_TESTS_CLIENT_COMPARE_EXAMPLE_COMPARISON_H_
