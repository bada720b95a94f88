// Parses regular expressions by recursive descent. The syntax is ECMAScript's with the additions of
// RE2 that mean the same everywhere. A construct with a meaning that differs between
// implementations is an error.
#include "service/grammar/formats/regex_syntax.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/counted.h"
#include "service/grammar/formats/format_error.h"
#include "service/grammar/formats/regex_reader.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using NodeKind = RegexNode::Kind;

constexpr size_t kMostPatternBytes = 65'536;
constexpr int kMostNestedGroups = 100;

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : reader_(pattern) {}

  RegexNode Parse() {
    RegexNode node = ParseChoice(0);
    if (!reader_.AtEnd()) reader_.Fail("')' without '('");
    return node;
  }

 private:
  static RegexNode Characters(size_t offset, CodePointSet set) {
    RegexNode node;
    node.kind = NodeKind::kCharacters;
    node.offset = offset;
    node.characters = std::move(set);
    return node;
  }

  RegexNode ParseChoice(int depth) {
    if (depth > kMostNestedGroups) {
      reader_.Fail(absl::StrCat("groups are nested deeper than ", kMostNestedGroups, " levels"));
    }
    RegexNode choice;
    choice.kind = NodeKind::kChoice;
    choice.offset = reader_.offset();
    do {
      choice.parts.push_back(ParseSequence(depth));
    } while (reader_.Skip("|"));
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : std::move(choice);
  }

  RegexNode ParseSequence(int depth) {
    RegexNode sequence;
    sequence.offset = reader_.offset();
    while (!reader_.AtEnd() && !reader_.Sees("|") && !reader_.Sees(")")) {
      sequence.parts.push_back(ParseRepeat(ParseAtom(depth)));
    }
    return sequence;
  }

  RegexNode ParseAtom(int depth) {
    const size_t offset = reader_.offset();
    RegexNode node;
    node.offset = offset;
    if (reader_.Skip("(")) return ParseGroup(offset, depth);
    if (reader_.Skip("^")) {
      node.kind = NodeKind::kBegin;
      return node;
    }
    if (reader_.Skip("$")) {
      node.kind = NodeKind::kEnd;
      return node;
    }
    if (reader_.Skip(".")) return Characters(offset, Complement(LineEnds()));
    if (reader_.Skip("[")) return Characters(offset, reader_.ReadClass(offset));
    if (reader_.Sees("\\")) return Characters(offset, reader_.ReadEscape(/*in_class=*/false));
    if (reader_.Sees("*") || reader_.Sees("+") || reader_.Sees("?") || AtCount()) {
      reader_.Fail("there is nothing to repeat");
    }
    const char32_t c = reader_.TakeCharacter();
    return Characters(offset, {{c, c}});
  }

  RegexNode ParseGroup(size_t offset, int depth) {
    if (reader_.Skip("?")) SkipGroupKind(offset);
    RegexNode node = ParseChoice(depth + 1);
    if (!reader_.Skip(")")) reader_.FailAt(offset, "'(' without ')'");
    return node;
  }

  // Reads the part of a group between "(?" and its content.
  void SkipGroupKind(size_t offset) {
    if (reader_.Skip(":")) return;
    if (reader_.Sees("=") || reader_.Sees("!")) {
      reader_.FailAt(offset, "lookahead is not supported");
    }
    if (reader_.Sees("<=") || reader_.Sees("<!")) {
      reader_.FailAt(offset, "lookbehind is not supported");
    }
    if (!reader_.Skip("P<") && !reader_.Skip("<")) {
      reader_.FailAt(offset, "this kind of group is not supported");
    }
    size_t length = 0;
    for (; !reader_.AtEnd() && !reader_.Sees(">"); ++length) {
      const char32_t c = reader_.TakeCharacter();
      const bool is_digit = c >= '0' && c <= '9';
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (!is_letter && !(is_digit && length > 0)) {
        reader_.FailAt(offset, "the group's name has characters other than A-Z a-z 0-9 _");
      }
    }
    if (length == 0 || !reader_.Skip(">")) reader_.FailAt(offset, "the group's name is wrong");
  }

  // Whether a count such as {2}, {2,} or {2,5} is next. Other braces are characters.
  bool AtCount() const {
    std::string_view rest = reader_.rest();
    const auto skip_digits = [&rest] {
      const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
      rest.remove_prefix(digits);
      return digits > 0;
    };
    if (!rest.starts_with('{')) return false;
    rest.remove_prefix(1);
    const bool has_least = skip_digits();
    const bool has_comma = rest.starts_with(',');
    if (has_comma) rest.remove_prefix(1);
    const bool has_most = has_comma && skip_digits();
    // Some implementations read {,5} as a count, others as characters. ReadCount refuses it.
    return (has_least || has_most) && rest.starts_with('}');
  }

  RegexNode ParseRepeat(RegexNode part) {
    const size_t offset = reader_.offset();
    uint32_t least = 0;
    std::optional<uint32_t> most;
    if (reader_.Skip("?")) {
      most = 1;
    } else if (reader_.Skip("+")) {
      least = 1;
    } else if (AtCount()) {
      ReadCount(&least, &most);
    } else if (!reader_.Skip("*")) {
      return part;
    }
    if (part.kind == NodeKind::kBegin || part.kind == NodeKind::kEnd) {
      reader_.FailAt(offset, "^ and $ cannot be repeated");
    }
    if (reader_.Sees("+")) reader_.Fail("possessive repetition is not supported");
    reader_.Skip("?");  // as few as possible: the same strings
    if (reader_.Sees("*") || reader_.Sees("+") || reader_.Sees("?") || AtCount()) {
      reader_.Fail("there is nothing to repeat");
    }
    RegexNode node;
    node.kind = NodeKind::kRepeat;
    node.offset = part.offset;
    node.parts.push_back(std::move(part));
    node.least = least;
    node.most = most;
    return node;
  }

  // REQUIRES: AtCount().
  void ReadCount(uint32_t* least, std::optional<uint32_t>* most) {
    const size_t offset = reader_.offset();
    reader_.Skip("{");
    if (reader_.Sees(",")) reader_.FailAt(offset, "write {0,n} instead of {,n}");
    *least = ReadNumber(offset);
    *most = *least;
    if (reader_.Skip(",")) {
      if (reader_.Sees("}")) {
        most->reset();
      } else {
        *most = ReadNumber(offset);
      }
    }
    reader_.Skip("}");
    if (most->has_value() && **most < *least) {
      reader_.FailAt(offset, "the counts are in the wrong order");
    }
  }

  uint32_t ReadNumber(size_t offset) {
    uint32_t number = 0;
    while (!reader_.AtEnd() && reader_.rest()[0] >= '0' && reader_.rest()[0] <= '9') {
      number = 10 * number + static_cast<uint32_t>(reader_.TakeCharacter() - '0');
      if (number > kMostRepeats) {
        reader_.FailAt(offset, absl::StrCat("a count exceeds ", kMostRepeats));
      }
    }
    return number;
  }

  RegexReader reader_;
};

}  // namespace

RegexNode ParseRegex(std::string_view pattern) {
  if (pattern.size() > kMostPatternBytes) {
    FailFormat(absl::StrCat("the regular expression has ", pattern.size(), " bytes, more than ",
                            kMostPatternBytes));
  }
  const size_t valid = ValidUtf8Prefix(pattern);
  if (valid < pattern.size()) FailFormat(absl::StrCat("at byte ", valid, ": this is no UTF-8"));
  return RegexParser(pattern).Parse();
}

}  // namespace longstream
