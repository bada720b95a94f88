// Parses tags and the text between them.
#include <algorithm>
#include <array>
#include <utility>

#include "service/jinja/syntax/parser.h"
#include "service/jinja/values/names.h"

namespace longstream::chat {
namespace {

// The limit of levels of tags within tags.
constexpr size_t kMaxNesting = 100;

// Tags of Jinja that chat templates do not use. A template that has one can be read, as in Jinja,
// and fails when it runs the tag.
constexpr std::array<std::string_view, 6> kUnsupportedTags = {"autoescape", "block",  "extends",
                                                              "from",       "import", "include"};
// Tags of extensions of Jinja that transformers does not load. It cannot read these templates
// either.
constexpr std::array<std::string_view, 3> kExtensionTags = {"debug", "do", "trans"};

// Sets whether unknown filters and tests are errors, until the end of a block.
class Soft {
 public:
  Soft(ExpressionParser* parser, bool is_soft)
      : parser_(parser), before_(parser->SetSoft(is_soft)) {}
  ~Soft() { parser_->SetSoft(before_); }
  Soft(const Soft&) = delete;
  Soft& operator=(const Soft&) = delete;

 private:
  ExpressionParser* const parser_;
  const bool before_;
};

}  // namespace

Body StatementParser::Parse() {
  Body body = ParseUntil({}, nullptr);
  expressions_.CheckNames();
  return body;
}

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
  // {% endblock %} may repeat the name of its block.
  if (end_name == "endblock" && tokens_.current().kind == TokenKind::kName) tokens_.Take();
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
  } else if (name == "call") {
    ParseCall(statement.get());
  } else if (name == "with") {
    ParseWith(statement.get());
  } else if (name == "print") {
    ParsePrint(body);
    --nesting_;
    return;
  } else if (name == "filter") {
    const Soft hard(&expressions_, false);
    statement->kind = StatementKind::kFilter;
    statement->expression = expressions_.ParseFilterChain();
    statement->body = ParseBody("endfilter");
  } else if (name == "generation") {
    statement->kind = StatementKind::kScope;
    ParseFunctionBody(statement.get(), "endgeneration");
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) Fail("{% " + name + " %} stands outside of a loop", statement->place);
    statement->kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    EndTag();
  } else if (Has(kUnsupportedTags, name)) {
    ParseUnsupported(statement.get(), name);
  } else if (Has(kExtensionTags, name)) {
    FailUnsupported("the tag {% " + name + " %}", statement->place);
  } else {
    Fail("unknown tag {% " + name + " %}", statement->place);
  }
  body->push_back(std::move(statement));
  --nesting_;
}

void StatementParser::ParseIf(Statement* statement) {
  const Soft soft(&expressions_, true);
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
  ++for_tags_;
  statement->target = ParseTarget(/*with_attribute=*/false);
  tokens_.ExpectName("in");
  statement->expression = expressions_.ParseTuple(/*with_conditional=*/false);
  const Soft hard(&expressions_, false);
  if (tokens_.SkipName("if")) statement->condition = expressions_.Parse();
  statement->is_recursive = tokens_.SkipName("recursive");
  tokens_.Skip(":");
  EndTag();
  std::string end_name;
  const size_t begin = tokens_.position();
  ++loops_;
  statement->body = ParseUntil({"else", "endfor"}, &end_name);
  --loops_;
  statement->uses_loop = statement->is_recursive || tokens_.ReadsSince(begin, "loop");
  if (end_name == "else") {
    // A recursive loop is a function, so its else branch cannot leave the loop around it.
    const size_t loops = loops_;
    if (statement->is_recursive) loops_ = 0;
    statement->otherwise = ParseBody("endfor");
    loops_ = loops;
  } else {
    EndTag();
  }
  --for_tags_;
}

void StatementParser::ParseSet(Statement* statement) {
  statement->target = ParseTarget(/*with_attribute=*/true);
  if (tokens_.Skip("=")) {
    statement->kind = StatementKind::kSet;
    statement->expression = expressions_.ParseTuple();
    return;
  }
  const Soft hard(&expressions_, false);
  statement->kind = StatementKind::kSetBlock;
  if (tokens_.Skip("|")) statement->expression = expressions_.ParseFilterChain();
  statement->body = ParseBody("endset");
}

Target StatementParser::ParseTarget(bool with_attribute, size_t depth) {
  const Place place = tokens_.current().place;
  Target first = ParseTargetPart(with_attribute, depth);
  if (!tokens_.current().Is(",")) return first;
  Target target;
  target.place = place;
  target.is_tuple = true;
  target.parts.push_back(std::move(first));
  while (tokens_.Skip(",")) {
    const Token& token = tokens_.current();
    if (token.IsName("in") || token.Is(")") || token.kind == TokenKind::kBlockEnd) break;
    target.parts.push_back(ParseTargetPart(with_attribute, depth));
  }
  return target;
}

Target StatementParser::ParseTargetPart(bool with_attribute, size_t depth) {
  Target target;
  target.place = tokens_.current().place;
  if (depth == kMaxNesting) {
    Fail("targets are nested deeper than " + std::to_string(kMaxNesting) + " levels", target.place);
  }
  if (tokens_.Skip("(")) {
    if (!tokens_.current().Is(")")) target = ParseTarget(/*with_attribute=*/false, depth + 1);
    if (target.name.empty()) target.is_tuple = true;
    tokens_.Expect(")");
    return target;
  }
  target.name = tokens_.ExpectAnyName();
  if (with_attribute && tokens_.Skip(".")) {
    target.attribute = tokens_.ExpectAnyName();
    return target;
  }
  constexpr std::array<std::string_view, 6> kConstants = {"true",  "True", "false",
                                                          "False", "none", "None"};
  if (Has(kConstants, target.name)) {
    Fail("'" + target.name + "' cannot be assigned", target.place);
  }
  if (target.name == "loop" && for_tags_ > 0) {
    Fail("'loop' cannot be assigned in a loop", target.place);
  }
  return target;
}

void StatementParser::ParseParameters(Statement* statement) {
  tokens_.Expect("(");
  while (!tokens_.current().Is(")")) {
    if (!statement->parameters.empty()) tokens_.Expect(",");
    Parameter parameter;
    const Place place = tokens_.current().place;
    parameter.name = tokens_.ExpectAnyName();
    const bool is_known = std::ranges::any_of(statement->parameters, [&](const Parameter& other) {
      return other.name == parameter.name;
    });
    if (is_known) Fail("two parameters are called '" + parameter.name + "'", place);
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

void StatementParser::ParseFunctionBody(Statement* statement, std::string_view end_name) {
  const Soft hard(&expressions_, false);
  const size_t loops = std::exchange(loops_, 0);
  const size_t begin = tokens_.position();
  statement->body = ParseBody(end_name);
  loops_ = loops;
  if (statement->kind == StatementKind::kScope) return;
  const auto uses = [&](std::string_view name) {
    const bool is_parameter = std::ranges::any_of(
        statement->parameters, [&](const Parameter& parameter) { return parameter.name == name; });
    return !is_parameter && tokens_.ReadsSince(begin, name);
  };
  statement->uses_caller = uses("caller");
  statement->uses_varargs = uses("varargs");
  statement->uses_kwargs = uses("kwargs");
  for (const Parameter& parameter : statement->parameters) {
    if (parameter.name != "caller" || parameter.otherwise != nullptr) continue;
    if (!tokens_.ReadsSince(begin, "caller")) continue;
    Fail("the parameter 'caller' needs a default value", statement->place);
  }
}

void StatementParser::ParseMacro(Statement* statement) {
  const Soft hard(&expressions_, false);
  statement->kind = StatementKind::kMacro;
  statement->name = tokens_.ExpectAnyName();
  ParseParameters(statement);
  ParseFunctionBody(statement, "endmacro");
}

void StatementParser::ParseCall(Statement* statement) {
  statement->kind = StatementKind::kCall;
  if (tokens_.current().Is("(")) {
    const Soft hard(&expressions_, false);
    ParseParameters(statement);
  }
  const Place place = tokens_.current().place;
  statement->expression = expressions_.Parse();
  if (statement->expression->kind != ExpressionKind::kCall) {
    Fail("{% call %} needs a call such as name()", place);
  }
  ParseFunctionBody(statement, "endcall");
}

void StatementParser::ParseWith(Statement* statement) {
  statement->kind = StatementKind::kWith;
  while (tokens_.current().kind != TokenKind::kBlockEnd && !tokens_.current().Is(":")) {
    if (!statement->assignments.empty()) tokens_.Expect(",");
    Assignment assignment;
    assignment.target = ParseTarget(/*with_attribute=*/false);
    tokens_.Expect("=");
    assignment.value = expressions_.Parse();
    statement->assignments.push_back(std::move(assignment));
  }
  const Soft hard(&expressions_, false);
  statement->body = ParseBody("endwith");
}

void StatementParser::ParseUnsupported(Statement* statement, const std::string& name) {
  statement->kind = StatementKind::kUnsupported;
  statement->name = name;
  while (tokens_.current().kind != TokenKind::kBlockEnd) {
    if (tokens_.current().kind == TokenKind::kEnd) tokens_.FailHere("'%}'");
    tokens_.Take();
  }
  if (name == "autoescape" || name == "block") {
    ParseFunctionBody(statement, "end" + name);
  } else {
    EndTag();
  }
}

void StatementParser::ParsePrint(Body* body) {
  bool is_first = true;
  while (tokens_.current().kind != TokenKind::kBlockEnd) {
    if (!std::exchange(is_first, false)) tokens_.Expect(",");
    auto print = std::make_unique<Statement>();
    print->kind = StatementKind::kPrint;
    print->place = tokens_.current().place;
    print->expression = expressions_.Parse();
    body->push_back(std::move(print));
  }
  EndTag();
}

}  // namespace longstream::chat
