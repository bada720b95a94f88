// A template's source as tokens, without the white space that its tags remove.
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
  kString,  // its value
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

// The tokens of a template, the last one kEnd; comments are left out. As Jinja reads it with
// trim_blocks and lstrip_blocks: the first line end behind a block or comment goes, and so does the
// white space before one that begins its line. One line end at the end of the source goes as well.
// Throws TemplateError. REQUIRES: UTF-8.
std::vector<Token> Tokenize(std::string_view source);

// How a token is named in an error message.
std::string Describe(const Token& token);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_LEXER_H_
