// Expressions for JSON text.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_JSON_TEXT_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_JSON_TEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {

// Any JSON object, with any members, as response_format.type "json_object".
GrammarBuilder::Expression AddAnyJsonObject(GrammarBuilder& builder);
// Any JSON value.
GrammarBuilder::Expression AddAnyJsonValue(GrammarBuilder& builder);

// The string in JSON, with quotes. It has escapes only where JSON needs them: \" \\ \b \f \n \r \t,
// and \u00xx for other control characters. REQUIRES: `decoded` is UTF-8.
std::string JsonString(std::string_view decoded);

// The parts of JSON texts. Each large part is one rule, made when it is first needed. Not
// thread-safe.
//
// Between two tokens of a text there may be nothing, one space, or a line end and at most 20 spaces
// or tabs. So a model can indent, but cannot go on with white space. A text has no white space
// before its first token and after its last one.
class JsonText {
 public:
  using Expression = GrammarBuilder::Expression;

  // REQUIRES: builder outlives this object.
  explicit JsonText(GrammarBuilder& builder) : builder_(builder) {}

  GrammarBuilder& builder() { return builder_; }

  // The white space between two tokens.
  Expression Space();
  // A token, and then white space.
  Expression Token(std::string_view token) { return Sequence({builder_.Literal(token), Space()}); }
  // A comma between white space.
  Expression Comma() { return Sequence({Space(), Token(",")}); }
  // A key, a colon and the value.
  Expression Member(Expression key, Expression value) {
    return Sequence({key, Space(), Token(":"), value});
  }

  // Any value, object, array, string or number. A string may have all escapes of JSON.
  Expression Value();
  Expression Object();
  Expression Array();
  Expression String();
  Expression Number();
  // A string with a number of code points.
  Expression String(uint32_t least, std::optional<uint32_t> most);

  // One character of a set, as it is written in a string by JsonString. The ranges are in rising
  // order and disjoint.
  Expression Character(absl::Span<const CodePoints> ranges);
  // Any string but these ones, written as by JsonString. So an escape cannot hide one of them.
  // nullopt: the strings have too many characters. REQUIRES: they are UTF-8.
  std::optional<Expression> StringExcept(absl::Span<const std::string_view> decoded);

  // `least` to `most` parts with commas between them, between two brackets.
  Expression List(std::string_view open, Expression part, uint32_t least,
                  std::optional<uint32_t> most, std::string_view close);

  Expression Sequence(absl::Span<const Expression> parts) { return builder_.Sequence(parts); }
  Expression Choice(absl::Span<const Expression> options) { return builder_.Choice(options); }

 private:
  // A character of a string, with all escapes.
  Expression AnyCharacter();
  // Any string, after its first quote.
  Expression StringRest();
  // Any string that is written as by JsonString, after its first quote.
  Expression PlainRest();
  // The rest of such a string, if its next character is no plain ASCII.
  Expression OtherRest();
  Expression ObjectBody() { return List("{", Member(String(), Value()), 0, std::nullopt, "}"); }
  Expression ArrayBody() { return List("[", Value(), 0, std::nullopt, "]"); }

  GrammarBuilder& builder_;
  std::optional<Expression> space_;
  std::optional<GrammarBuilder::Rule> value_;
  std::optional<Expression> object_;
  std::optional<Expression> array_;
  std::optional<Expression> string_;
  std::optional<Expression> number_;
  std::optional<Expression> any_character_;
  std::optional<Expression> string_rest_;
  std::optional<Expression> plain_rest_;
  std::optional<Expression> other_rest_;
  std::map<std::pair<uint32_t, std::optional<uint32_t>>, Expression> strings_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_JSON_TEXT_H_
