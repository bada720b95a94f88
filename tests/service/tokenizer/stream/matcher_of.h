// A matcher of strings that are valid.
#ifndef LONGSTREAM_TESTS_SERVICE_TOKENIZER_STREAM_MATCHER_OF_H_
#define LONGSTREAM_TESTS_SERVICE_TOKENIZER_STREAM_MATCHER_OF_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service/tokenizer/stream/stop_matcher.h"

namespace longstream {

inline StopMatcher MatcherOf(const std::vector<std::string>& stop_strings) {
  auto matcher = StopMatcher::Create(stop_strings);
  EXPECT_TRUE(matcher.ok()) << matcher.status();
  return *std::move(matcher);
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_TOKENIZER_STREAM_MATCHER_OF_H_
