// Parses tokens into a syntax tree by Jinja's grammar.
#ifndef LONGSTREAM_SERVICE_JINJA_SYNTAX_PARSER_H_
#define LONGSTREAM_SERVICE_JINJA_SYNTAX_PARSER_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/jinja/syntax/lexer.h"
#include "service/jinja/syntax/syntax_tree.h"

namespace longstream::chat {

// The tokens of one template, and the current position in them.
class TokenStream {
 public:
  // REQUIRES: the last token is kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token Take();
  bool Skip(std::string_view op);
  bool SkipName(std::string_view name);
  void Expect(std::string_view op);
  void ExpectName(std::string_view name);
  std::string ExpectAnyName();
  void ExpectKind(TokenKind kind, std::string_view wanted);
  size_t position() const { return at_; }
  // Whether the tokens from the position `begin` up to the current one read the variable `name`
  // before they assign it.
  bool ReadsSince(size_t begin, std::string_view name) const;
  [[noreturn]] void FailHere(std::string_view wanted) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Parses expressions. Throws TemplateError.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream* tokens) : tokens_(*tokens) {}

  ExpressionPtr Parse() { return ParseConditional(); }
  // Parses an expression that may be a tuple without parentheses. If `with_conditional` is false,
  // the expression ends before `if`.
  ExpressionPtr ParseTuple(bool with_conditional = true, bool in_parentheses = false);
  // Parses a chain of filters without an input: `name`, `name(arguments)`, `name|name ...`. The
  // operand of the first filter is nullptr.
  ExpressionPtr ParseFilterChain();

  // Jinja looks up filters and tests when it compiles a template, but those in an `if` (a tag or an
  // inline one) only when they are applied. While `is_soft`, an unknown filter is no error here;
  // otherwise CheckNames throws it.
  bool SetSoft(bool is_soft) { return std::exchange(is_soft_, is_soft); }
  void CheckNames() const {
    if (unknown_.empty()) return;
    const TemplateError& first = unknown_.front();
    throw TemplateError{first.code, first.message, first.place};
  }

 private:
  ExpressionPtr ParseConditional();
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filter = true);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseNameOrConstant();
  ExpressionPtr ParsePostfix(ExpressionPtr operand);
  ExpressionPtr ParseFilters(ExpressionPtr operand);
  ExpressionPtr ParseFilter(ExpressionPtr operand);
  ExpressionPtr ParseTest(ExpressionPtr operand);
  ExpressionPtr ParseAttribute(ExpressionPtr operand);
  ExpressionPtr ParseSubscript(ExpressionPtr operand);
  ExpressionPtr ParseListOrDict();
  void ParseArguments(Expression* call);
  void ParseArgument(Expression* call);
  void AddUnknown(const std::string& what, Place place);
  bool AtTupleEnd() const;

  TokenStream& tokens_;
  size_t nesting_ = 0;
  bool is_soft_ = false;
  std::vector<TemplateError> unknown_;  // filters and tests that nobody knows
};

// Parses statements. Throws TemplateError.
class StatementParser {
 public:
  explicit StatementParser(std::string_view source)
      : tokens_(Tokenize(source)), expressions_(&tokens_) {}

  // Parses the whole template.
  Body Parse();

 private:
  using EndNames = std::initializer_list<std::string_view>;

  // Parses statements until a tag with one of the names, and reads that tag up to its name.
  Body ParseUntil(EndNames end_names, std::string* end_name);
  // Parses the rest of a tag and all statements up to and including its end tag.
  Body ParseBody(std::string_view end_name);
  void ParseTag(Body* body);
  void ParseFor(Statement* statement);
  void ParseIf(Statement* statement);
  void ParseSet(Statement* statement);
  void ParseMacro(Statement* statement);
  void ParseCall(Statement* statement);
  void ParseWith(Statement* statement);
  // Parses a tag of Jinja that is not supported, with its body if it has one.
  void ParseUnsupported(Statement* statement, const std::string& name);
  void ParsePrint(Body* body);
  void ParseParameters(Statement* statement);
  // Parses the body of a macro or a call, which is a function: no loop around it can be left.
  void ParseFunctionBody(Statement* statement, std::string_view end_name);
  Target ParseTarget(bool with_attribute, size_t depth = 0);
  Target ParseTargetPart(bool with_attribute, size_t depth);
  void EndTag() { tokens_.ExpectKind(TokenKind::kBlockEnd, "'%}'"); }

  TokenStream tokens_;
  ExpressionParser expressions_;
  size_t nesting_ = 0;
  size_t loops_ = 0;     // loops that `break` can leave
  size_t for_tags_ = 0;  // loops around the current tag, with their else branches
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_PARSER_H_
