// Expects a BackendError by its code and its whole sentence.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_EXPECT_ERROR_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_EXPECT_ERROR_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
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

// A row of a table of refusals: a config, and the sentence with which it is refused.
struct Refusal {
  const char* config;    // as text, or the changes to a valid config
  std::string sentence;  // without the name of the config's file; "options: ..." is whole
  const char* options = "{}";
};

// Expects plan(config, options) to refuse every row with this code. Errors call the config's file
// m/config.json.
template <typename Plan>
void ExpectRefusals(ls_code code, std::span<const Refusal> rows, Plan&& plan) {
  for (const Refusal& row : rows) {
    SCOPED_TRACE(std::string("config ") + row.config + ", options " + row.options);
    const bool blames_options = row.sentence.starts_with("options: ");
    ExpectError(code, (blames_options ? "" : "m/config.json: ") + row.sentence,
                [&] { plan(row.config, row.options); });
  }
}

// The sentence about a key that nothing has read, for example NotKnown("acme = 1", "dense").
inline std::string NotKnown(const std::string& key_and_value, const std::string& reader) {
  return key_and_value + " is not known to " + reader +
         ", and what is not known may change the mathematics; the option ignore_keys ignores the "
         "key";
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_EXPECT_ERROR_H_
