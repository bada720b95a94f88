// The form that an answer must have, and its grammar.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_RESPONSE_RESPONSE_FORMAT_H_
#define LONGSTREAM_SERVICE_GRAMMAR_RESPONSE_RESPONSE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/grammar/grammar.h"

namespace longstream {

// A format in plain values. Formats are made of other ones.
struct ResponseFormat {
  enum class Kind {
    kText,         // exactly `text`
    kTextWithout,  // any text in which `text` does not occur
    kJsonObject,   // any JSON object
    kJsonSchema,   // JSON as the schema in `text` says
    kRegex,        // the regular expression in `text`
    kGrammar,      // the GBNF grammar in `text`
    kSequence,     // the parts, one after the other
    kAnyOf,        // one of the parts
    kRepeat,       // parts[0], `least` to `most` times
  };

  Kind kind = Kind::kJsonObject;
  std::string text{};  // UTF-8
  std::vector<ResponseFormat> parts{};
  uint32_t least = 0;
  std::optional<uint32_t> most = std::nullopt;  // absent: without a limit
};

// A text that equal formats have, and no others.
std::string KeyOf(const ResponseFormat& format);

// INVALID_ARGUMENT: a text of the format is wrong, or the grammar is too large. The message begins
// with the place of the part, such as "any_of.formats[1].json_schema". The caller has checked the
// depth.
absl::StatusOr<Grammar> Compile(const ResponseFormat& format);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_RESPONSE_RESPONSE_FORMAT_H_
