// Divides the source of a template into tokens, without the white space that its tags remove.
#ifndef LONGSTREAM_SERVICE_JINJA_SYNTAX_LEXER_H_
#define LONGSTREAM_SERVICE_JINJA_SYNTAX_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/jinja/values/error.h"

namespace longstream::chat {

enum class TokenKind {
  kText,           // outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,  // Token::text is the value of the string
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  bool Is(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }

  TokenKind kind = TokenKind::kEnd;
  Place place;
  std::string text;
  int64_t integer = 0;
  double number = 0.0;
};

// Returns the tokens of a template without its comments. The last token is kEnd. Removes white
// space as Jinja does with trim_blocks and lstrip_blocks: the first line end after a block or a
// comment, and the white space between the beginning of a line and a block or a comment. Also
// removes one line end at the end of the source. Throws TemplateError. REQUIRES: the source is
// UTF-8.
std::vector<Token> Tokenize(std::string_view source);

// Returns the name of a token for error messages.
std::string Describe(const Token& token);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_LEXER_H_
