// Regular expressions.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {

struct RegexUse {
  // false: the pattern must match the whole string. ^ and $ change nothing.
  // true: it must match somewhere in the string, as `pattern` of JSON Schema.
  bool is_search = false;

  // The form that one character of a set has in the text. The ranges are in rising order and
  // disjoint. Absent: UTF-8.
  std::function<GrammarBuilder::Expression(absl::Span<const CodePoints>)> character;

  // The lengths that the string may have, in code points. The pattern must imply them, or each of
  // its branches must be a sequence in which only one part, a repeated character, has a length that
  // varies.
  uint64_t least_length = 0;
  std::optional<uint64_t> most_length;
};

// The strings that a pattern matches. The syntax is ECMAScript's, over code points:
//
//   characters, . [a-z] [^a-z] \d \D \w \W \s \S, \p{L} and other general categories,
//   \n \r \t \f \v \0 \cX \xHH \uHHHH \u{H...} \x{H...}, \ before any other sign,
//   a|b, (a), (?:a), (?<name>a), (?P<name>a), a* a+ a? a{m} a{m,} a{m,n}, all with a ? behind them,
//   ^ at the begin and $ at the end of the string.
//
// \d and \w are ASCII, \s is Unicode's white space, and . matches no line end (\n \r U+2028
// U+2029). INVALID_ARGUMENT: the pattern is wrong or not supported; the message names the byte.
// Back-references, lookaround, \b, flags, and other properties are not supported. Limits: 65,536
// bytes, groups in 100 levels, counts up to 10,000.
absl::StatusOr<GrammarBuilder::Expression> AddRegex(GrammarBuilder& builder,
                                                    std::string_view pattern,
                                                    const RegexUse& use = {});

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_H_
