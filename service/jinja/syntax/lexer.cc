// Divides a template into texts, tags and the tokens in tags.
#include "service/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "service/jinja/syntax/string_literal.h"
#include "service/jinja/values/unicode.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

// Converts all line ends to "
// " and removes the last one.
std::string NormalizeLines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeLines(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadTextAndTag();
    Add(TokenKind::kEnd, at_);
    return std::move(tokens_);
  }

 private:
  // Whether "{%", "{{" or "{#" is at the offset.
  bool OpensTag(size_t at) const {
    return at + 1 < source_.size() && source_[at] == '{' &&
           (source_[at + 1] == '%' || source_[at + 1] == '{' || source_[at + 1] == '#');
  }

  bool StartsWith(size_t at, std::string_view text) const {
    return std::string_view{source_}.substr(std::min(at, source_.size())).starts_with(text);
  }

  void ReadTextAndTag() {
    const size_t begin = at_;
    size_t tag = at_;
    while (tag < source_.size() && !OpensTag(tag)) ++tag;
    if (tag == source_.size()) {
      AddText(begin, tag);
      at_ = tag;
      return;
    }
    const char kind = source_[tag + 1];
    size_t inner = tag + 2;
    const char sign = inner < source_.size() ? source_[inner] : '\0';
    if (sign == '-' || sign == '+') ++inner;
    AddText(begin, TextEnd(begin, tag, kind, sign));
    at_ = inner;
    if (kind == '#') return SkipComment(tag);
    if (kind == '%' && ReadRaw(tag)) return;
    ReadTag(tag, kind == '%');
  }

  // Returns the end of the text before a tag, without the white space that the tag removes.
  size_t TextEnd(size_t begin, size_t tag, char kind, char sign) const {
    const std::string_view text = std::string_view{source_}.substr(begin, tag - begin);
    if (sign == '-') return begin + StripEnd(text, 0, nullptr);
    if (kind == '{' || sign == '+') return tag;
    const size_t line = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
    if (line == 0 && !line_starting_) return tag;
    return StripEnd(text, line, nullptr) == line ? begin + line : tag;
  }

  // Continues after the end of a tag: skips the white space that `%}` or `-%}` removes.
  void FinishTag(size_t end, bool strips, bool trims) {
    at_ = end;
    if (strips) {
      at_ += StripBegin(std::string_view{source_}.substr(end), nullptr);
    } else if (trims && StartsWith(end, "\n")) {
      ++at_;
    }
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void SkipComment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Fail("a comment is not closed", PlaceOf(tag));
    const char sign = end > at_ ? source_[end - 1] : '\0';
    FinishTag(end + 2, sign == '-', sign != '+');
  }

  // Reads {% raw %} ... {% endraw %}. Returns false if it is another tag.
  bool ReadRaw(size_t tag) {
    const size_t after_name = SkipWord(at_, "raw");
    if (after_name == std::string::npos) return false;
    bool strips = false;
    const size_t body = SkipClose(after_name, /*plus=*/false, &strips);
    if (body == std::string::npos) return false;
    FinishTag(body, strips, /*trims=*/false);
    for (size_t at = at_;; ++at) {
      at = source_.find("{%", at);
      if (at == std::string::npos) Fail("{% raw %} is not closed", PlaceOf(tag));
      const char sign = at + 2 < source_.size() ? source_[at + 2] : '\0';
      const size_t inner = at + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      const size_t name_end = SkipWord(inner, "endraw");
      if (name_end == std::string::npos) continue;
      bool keeps = false;
      const size_t end = SkipClose(name_end, /*plus=*/true, &strips, &keeps);
      if (end == std::string::npos) continue;
      AddText(at_, TextEnd(at_, at, '%', sign));
      FinishTag(end, strips, !keeps);
      return true;
    }
  }

  size_t SkipSpace(size_t at) const {
    return at + StripBegin(std::string_view{source_}.substr(at), nullptr);
  }

  // Returns the offset after the word and the white space around it. npos: another word is there.
  size_t SkipWord(size_t at, std::string_view word) const {
    at = SkipSpace(at);
    return StartsWith(at, word) ? SkipSpace(at + word.size()) : std::string::npos;
  }

  // Returns the offset after "%}", "-%}" or, with `plus`, "+%}". npos: none of them is there.
  size_t SkipClose(size_t at, bool plus, bool* strips, bool* keeps = nullptr) const {
    *strips = StartsWith(at, "-%}");
    if (*strips) return at + 3;
    if (plus && StartsWith(at, "+%}")) {
      *keeps = true;
      return at + 3;
    }
    return StartsWith(at, "%}") ? at + 2 : std::string::npos;
  }

  void ReadTag(size_t tag, bool is_block) {
    Add(is_block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, tag);
    const std::string_view close = is_block ? "%}" : "}}";
    std::vector<char> brackets;
    while (true) {
      at_ = SkipSpace(at_);
      if (at_ >= source_.size()) Fail("a tag is not closed", PlaceOf(tag));
      if (brackets.empty()) {
        const char sign = source_[at_];
        const bool signed_close =
            (sign == '-' || (sign == '+' && is_block)) && StartsWith(at_ + 1, close);
        if (signed_close || StartsWith(at_, close)) {
          Add(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, at_);
          return FinishTag(at_ + close.size() + (signed_close ? 1 : 0), signed_close && sign == '-',
                           is_block && !signed_close);
        }
      }
      ReadToken(&brackets);
    }
  }

  void ReadToken(std::vector<char>* brackets) {
    const char c = source_[at_];
    if (IsDigit(c)) return ReadNumber();
    if (IsNameStart(c)) {
      size_t end = at_;
      while (end < source_.size() && IsNamePart(source_[end])) ++end;
      Add(TokenKind::kName, at_).text = source_.substr(at_, end - at_);
      at_ = end;
      return;
    }
    if (c == '\'' || c == '"') return ReadString();
    const std::string_view rest = std::string_view{source_}.substr(at_);
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                     [&](std::string_view op) { return rest.starts_with(op); });
    if (found == kOperators.end()) {
      Fail("unexpected character '" + std::string(rest.substr(0, OffsetOf(rest, 1))) + "'",
           PlaceOf(at_));
    }
    Balance(*found, brackets);
    Add(TokenKind::kOperator, at_).text = *found;
    at_ += found->size();
  }

  void Balance(std::string_view op, std::vector<char>* brackets) const {
    if (op == "{" || op == "(" || op == "[") {
      brackets->push_back(op == "{" ? '}' : op == "(" ? ')' : ']');
    } else if (op == "}" || op == ")" || op == "]") {
      if (brackets->empty() || brackets->back() != op[0]) {
        Fail("unexpected '" + std::string(op) + "'", PlaceOf(at_));
      }
      brackets->pop_back();
    }
  }

  // Appends to *digits the digits from `at` on, without the single underscores between them.
  // Returns the offset after them.
  size_t SkipDigits(size_t at, std::string* digits) const {
    while (at < source_.size()) {
      if (source_[at] == '_' && at + 1 < source_.size() && IsDigit(source_[at + 1]) &&
          !digits->empty()) {
        ++at;
      } else if (!IsDigit(source_[at])) {
        break;
      }
      *digits += source_[at++];
    }
    return at;
  }

  void ReadNumber() {
    const size_t begin = at_;
    std::string text;
    at_ = SkipDigits(at_, &text);
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    bool is_float = false;
    if (!after_dot && StartsWith(at_, ".") && at_ + 1 < source_.size() &&
        IsDigit(source_[at_ + 1])) {
      std::string fraction;
      at_ = SkipDigits(at_ + 1, &fraction);
      text += "." + fraction;
      is_float = true;
    }
    if (!after_dot && (StartsWith(at_, "e") || StartsWith(at_, "E"))) {
      const bool has_sign = StartsWith(at_ + 1, "+") || StartsWith(at_ + 1, "-");
      const size_t digits = at_ + (has_sign ? 2 : 1);
      if (digits < source_.size() && IsDigit(source_[digits])) {
        std::string exponent;
        const size_t end = SkipDigits(digits, &exponent);
        text += "e" + (has_sign ? source_.substr(at_ + 1, 1) : "") + exponent;
        at_ = end;
        is_float = true;
      }
    }
    if (at_ < source_.size() && IsNamePart(source_[at_])) {
      FailUnsupported("a number written as '" + source_.substr(begin, at_ + 1 - begin) + "...'",
                      PlaceOf(begin));
    }
    Token& token = Add(is_float ? TokenKind::kFloat : TokenKind::kInteger, begin);
    const char* end = text.data() + text.size();
    const bool fits = is_float ? std::from_chars(text.data(), end, token.number).ec == std::errc()
                               : std::from_chars(text.data(), end, token.integer).ec == std::errc();
    if (!fits) Fail("the number " + text + " is too large", PlaceOf(begin));
    token.text = std::move(text);
  }

  void ReadString() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Fail("a string is not closed", PlaceOf(at_));
    const Place place = PlaceOf(at_);
    const std::string_view body = std::string_view{source_}.substr(at_ + 1, end - at_ - 1);
    Add(TokenKind::kString, at_).text = UnescapeString(body, place);
    at_ = end + 1;
  }

  void AddText(size_t begin, size_t end) {
    if (begin < end) Add(TokenKind::kText, begin).text = source_.substr(begin, end - begin);
  }

  Token& Add(TokenKind kind, size_t at) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.place = PlaceOf(at);
    return token;
  }

  // Fast if the offsets of successive calls ascend.
  Place PlaceOf(size_t at) const {
    if (at < counted_) {
      counted_ = 0;
      place_ = {1, 1};
    }
    for (; counted_ < at; ++counted_) {
      if (source_[counted_] == '\n') {
        place_ = {place_.line + 1, 1};
      } else if (!IsContinuation(source_[counted_])) {
        ++place_.column;
      }
    }
    return place_;
  }

  const std::string source_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
  mutable size_t counted_ = 0;  // place_ is the line and column of this byte
  mutable Place place_ = {1, 1};
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace longstream::chat
