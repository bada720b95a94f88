// Expects a BackendError by its code and its whole sentence.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_EXPECT_ERROR_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_EXPECT_ERROR_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/errors/error.h"

namespace longstream {

// Runs `body`, which must throw a BackendError with this code. `message` matches its sentence: a
// string is the whole sentence; it may be a gmock matcher.
template <typename Body, typename Message>
void ExpectError(ls_code code, const Message& message, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "no error, expected " << ::testing::PrintToString(message);
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(std::string(error.what()), ::testing::SafeMatcherCast<std::string>(message));
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_EXPECT_ERROR_H_
