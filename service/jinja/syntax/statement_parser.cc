// Parses tags and the text between them.
#include <algorithm>
#include <array>
#include <utility>

#include "service/jinja/syntax/parser.h"

namespace longstream::chat {
namespace {

// The limit of levels of tags within tags.
constexpr size_t kMaxNesting = 100;

// Tags of Jinja that chat templates do not use.
constexpr std::array<std::string_view, 12> kUnsupportedTags = {
    "extends",    "block", "include", "import", "from",  "with",
    "autoescape", "print", "do",      "trans",  "debug", "call"};

}  // namespace

Body StatementParser::Parse() { return ParseUntil({}, nullptr); }

Body StatementParser::ParseUntil(EndNames end_names, std::string* end_name) {
  Body body;
  while (tokens_.current().kind != TokenKind::kEnd) {
    const Token token = tokens_.Take();
    if (token.kind == TokenKind::kText) {
      auto text = std::make_unique<Statement>();
      text->place = token.place;
      text->text = token.text;
      body.push_back(std::move(text));
    } else if (token.kind == TokenKind::kVariableBegin) {
      auto print = std::make_unique<Statement>();
      print->kind = StatementKind::kPrint;
      print->place = token.place;
      print->expression = expressions_.ParseTuple();
      body.push_back(std::move(print));
      tokens_.ExpectKind(TokenKind::kVariableEnd, "'}}'");
    } else {
      const std::string& name = tokens_.current().text;
      if (std::ranges::find(end_names, name) != end_names.end()) {
        *end_name = tokens_.Take().text;
        return body;
      }
      ParseTag(&body);
    }
  }
  if (end_names.size() > 0) {
    tokens_.FailHere("{% " + std::string(*(end_names.end() - 1)) + " %}");
  }
  return body;
}

Body StatementParser::ParseBody(std::string_view end_name) {
  tokens_.Skip(":");
  EndTag();
  std::string found;
  Body body = ParseUntil({end_name}, &found);
  EndTag();
  return body;
}

void StatementParser::ParseTag(Body* body) {
  if (++nesting_ > kMaxNesting) {
    Fail("tags are nested deeper than " + std::to_string(kMaxNesting) + " levels",
         tokens_.current().place);
  }
  auto statement = std::make_unique<Statement>();
  statement->place = tokens_.current().place;
  const std::string name = tokens_.ExpectAnyName();
  if (name == "if") {
    ParseIf(statement.get());
  } else if (name == "for") {
    ParseFor(statement.get());
  } else if (name == "set") {
    ParseSet(statement.get());
    if (statement->kind == StatementKind::kSet) EndTag();
  } else if (name == "macro") {
    ParseMacro(statement.get());
  } else if (name == "filter") {
    statement->kind = StatementKind::kFilter;
    statement->expression = expressions_.ParseFilterChain();
    statement->body = ParseBody("endfilter");
  } else if (name == "generation") {
    statement->kind = StatementKind::kScope;
    statement->body = ParseBody("endgeneration");
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) Fail("{% " + name + " %} stands outside of a loop", statement->place);
    statement->kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    EndTag();
  } else if (std::ranges::find(kUnsupportedTags, name) != kUnsupportedTags.end()) {
    FailUnsupported("the tag {% " + name + " %}", statement->place);
  } else {
    Fail("unknown tag {% " + name + " %}", statement->place);
  }
  body->push_back(std::move(statement));
  --nesting_;
}

void StatementParser::ParseIf(Statement* statement) {
  statement->kind = StatementKind::kIf;
  std::string end_name = "elif";
  while (end_name == "elif") {
    Branch branch;
    branch.condition = expressions_.ParseTuple(/*with_conditional=*/false);
    tokens_.Skip(":");
    EndTag();
    branch.body = ParseUntil({"elif", "else", "endif"}, &end_name);
    statement->branches.push_back(std::move(branch));
  }
  if (end_name == "else") {
    statement->otherwise = ParseBody("endif");
  } else {
    EndTag();
  }
}

void StatementParser::ParseFor(Statement* statement) {
  statement->kind = StatementKind::kFor;
  statement->target = ParseTarget(/*with_attribute=*/false);
  tokens_.ExpectName("in");
  statement->expression = expressions_.ParseTuple(/*with_conditional=*/false);
  if (tokens_.SkipName("if")) statement->condition = expressions_.Parse();
  if (tokens_.current().IsName("recursive")) {
    FailUnsupported("a recursive loop", tokens_.current().place);
  }
  tokens_.Skip(":");
  EndTag();
  std::string end_name;
  const size_t begin = tokens_.position();
  ++loops_;
  statement->body = ParseUntil({"else", "endfor"}, &end_name);
  --loops_;
  statement->uses_loop = tokens_.HasNameSince(begin, "loop");
  if (end_name == "else") {
    statement->otherwise = ParseBody("endfor");
  } else {
    EndTag();
  }
}

void StatementParser::ParseSet(Statement* statement) {
  statement->target = ParseTarget(/*with_attribute=*/true);
  if (tokens_.Skip("=")) {
    statement->kind = StatementKind::kSet;
    statement->expression = expressions_.ParseTuple();
    return;
  }
  statement->kind = StatementKind::kSetBlock;
  if (tokens_.Skip("|")) statement->expression = expressions_.ParseFilterChain();
  statement->body = ParseBody("endset");
}

Target StatementParser::ParseTarget(bool with_attribute) {
  Target target;
  target.place = tokens_.current().place;
  if (tokens_.current().Is("(")) FailUnsupported("an assignment to parentheses", target.place);
  target.names.push_back(tokens_.ExpectAnyName());
  if (with_attribute && tokens_.Skip(".")) {
    target.attribute = tokens_.ExpectAnyName();
    return target;
  }
  while (tokens_.Skip(",")) {
    target.is_tuple = true;
    if (!with_attribute && tokens_.current().IsName("in")) break;
    target.names.push_back(tokens_.ExpectAnyName());
  }
  if (tokens_.current().Is(".")) {
    FailUnsupported("an assignment to an attribute in this place", tokens_.current().place);
  }
  return target;
}

void StatementParser::ParseParameters(Statement* statement) {
  tokens_.Expect("(");
  while (!tokens_.current().Is(")")) {
    if (!statement->parameters.empty()) tokens_.Expect(",");
    Parameter parameter;
    parameter.name = tokens_.ExpectAnyName();
    if (tokens_.Skip("=")) {
      parameter.otherwise = expressions_.Parse();
    } else if (!statement->parameters.empty() &&
               statement->parameters.back().otherwise != nullptr) {
      tokens_.FailHere("'=' after the parameter " + parameter.name);
    }
    statement->parameters.push_back(std::move(parameter));
  }
  tokens_.Expect(")");
}

void StatementParser::ParseMacro(Statement* statement) {
  statement->kind = StatementKind::kMacro;
  statement->name = tokens_.ExpectAnyName();
  ParseParameters(statement);
  const size_t loops = std::exchange(loops_, 0);
  statement->body = ParseBody("endmacro");
  loops_ = loops;
}

}  // namespace longstream::chat
