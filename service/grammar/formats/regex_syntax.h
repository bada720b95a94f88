// Parses regular expressions into a syntax tree.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_SYNTAX_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_SYNTAX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "service/grammar/formats/code_points.h"

namespace longstream {

struct RegexNode {
  enum class Kind {
    kCharacters,  // one character of a set
    kSequence,    // parts; none: the empty string
    kChoice,      // one of the parts
    kRepeat,      // parts[0], `least` to `most` times
    kBegin,       // ^
    kEnd,         // $
  };

  Kind kind = Kind::kSequence;
  size_t offset = 0;  // of the first byte in the pattern
  CodePointSet characters;
  std::vector<RegexNode> parts;
  uint32_t least = 0;
  std::optional<uint32_t> most;  // nullopt: without a limit
};

// Parses a pattern. Throws FormatError, whose message names the offset of the first byte that is
// wrong or not supported.
RegexNode ParseRegex(std::string_view pattern);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_SYNTAX_H_
