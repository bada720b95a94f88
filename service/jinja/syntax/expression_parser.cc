// Parses expressions by recursive descent, from the operators that bind least tightly.
#include <algorithm>
#include <utility>

#include "service/jinja/builtins/filters.h"
#include "service/jinja/syntax/parser.h"

namespace longstream::chat {
namespace {

// Bounds the stack memory of the parser and of all code that walks the tree.
constexpr size_t kMaxDepth = 200;

[[noreturn]] void FailTooDeep(Place place) {
  Fail("an expression is nested deeper than " + std::to_string(kMaxDepth) + " levels", place);
}

ExpressionPtr Make(ExpressionKind kind, Place place, std::string name = "") {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->place = place;
  expression->name = std::move(name);
  return expression;
}

void Grow(Expression* expression, const ExpressionPtr& part) {
  if (part == nullptr) return;
  expression->depth = std::max(expression->depth, part->depth + 1);
  if (expression->depth > kMaxDepth) FailTooDeep(part->place);
}

void Add(Expression* expression, ExpressionPtr part) {
  Grow(expression, part);
  expression->parts.push_back(std::move(part));
}

ExpressionPtr MakeBinary(ExpressionKind kind, Place place, std::string name, ExpressionPtr left,
                         ExpressionPtr right) {
  ExpressionPtr expression = Make(kind, place, std::move(name));
  Add(expression.get(), std::move(left));
  Add(expression.get(), std::move(right));
  return expression;
}

ExpressionPtr MakeConstant(Place place, Value value) {
  ExpressionPtr expression = Make(ExpressionKind::kConstant, place);
  expression->value = std::move(value);
  return expression;
}

// Counts one level of nesting while the object exists.
class Level {
 public:
  Level(size_t* depth, Place place) : depth_(depth) {
    if (++*depth_ > kMaxDepth) FailTooDeep(place);
  }
  ~Level() { --*depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  size_t* const depth_;
};

constexpr std::string_view kCompareOperators[] = {"==", "!=", "<", "<=", ">", ">="};

}  // namespace

Token TokenStream::Take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::Skip(std::string_view op) {
  if (!current().Is(op)) return false;
  Take();
  return true;
}

bool TokenStream::SkipName(std::string_view name) {
  if (!current().IsName(name)) return false;
  Take();
  return true;
}

void TokenStream::Expect(std::string_view op) {
  if (!Skip(op)) FailHere("'" + std::string(op) + "'");
}

void TokenStream::ExpectName(std::string_view name) {
  if (!SkipName(name)) FailHere("'" + std::string(name) + "'");
}

std::string TokenStream::ExpectAnyName() {
  if (current().kind != TokenKind::kName) FailHere("a name");
  return Take().text;
}

void TokenStream::ExpectKind(TokenKind kind, std::string_view wanted) {
  if (current().kind != kind) FailHere(wanted);
  Take();
}

bool TokenStream::ReadsSince(size_t begin, std::string_view name) const {
  for (size_t i = begin; i < at_; ++i) {
    if (!tokens_[i].IsName(name)) continue;
    const Token& before = tokens_[i > 0 ? i - 1 : 0];
    if (before.Is(".") || before.Is("|")) continue;
    if (before.IsName("set") || before.IsName("for")) return false;
    // `name=` names an argument of a call.
    if (i + 1 < tokens_.size() && tokens_[i + 1].Is("=")) continue;
    return true;
  }
  return false;
}

void TokenStream::FailHere(std::string_view wanted) const {
  Fail("expected " + std::string(wanted) + ", found " + Describe(current()), current().place);
}

bool ExpressionParser::AtTupleEnd() const {
  const Token& token = tokens_.current();
  return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
         token.Is(")");
}

ExpressionPtr ExpressionParser::ParseTuple(bool with_conditional, bool in_parentheses) {
  const Place place = tokens_.current().place;
  ExpressionPtr tuple = Make(ExpressionKind::kTuple, place);
  bool is_tuple = in_parentheses;
  while (!AtTupleEnd()) {
    Add(tuple.get(), with_conditional ? ParseConditional() : ParseOr());
    if (!tokens_.Skip(",")) {
      is_tuple = tuple->parts.size() > 1;
      break;
    }
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (tuple->parts.empty()) tokens_.FailHere("an expression");
  return std::move(tuple->parts[0]);
}

ExpressionPtr ExpressionParser::ParseConditional() {
  const Level level(&nesting_, tokens_.current().place);
  const Place place = tokens_.current().place;
  const size_t unknown = unknown_.size();
  ExpressionPtr value = ParseOr();
  while (tokens_.SkipName("if")) {
    ExpressionPtr conditional = Make(ExpressionKind::kConditional, place);
    Add(conditional.get(), ParseOr());
    Add(conditional.get(), std::move(value));
    Add(conditional.get(), tokens_.SkipName("else") ? ParseConditional() : nullptr);
    value = std::move(conditional);
    unknown_.resize(unknown);
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  for (Place place = tokens_.current().place; tokens_.SkipName("or");
       place = tokens_.current().place) {
    left = MakeBinary(ExpressionKind::kOr, place, "", std::move(left), ParseAnd());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  for (Place place = tokens_.current().place; tokens_.SkipName("and");
       place = tokens_.current().place) {
    left = MakeBinary(ExpressionKind::kAnd, place, "", std::move(left), ParseNot());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  const Place place = tokens_.current().place;
  const Level level(&nesting_, place);
  if (!tokens_.SkipName("not")) return ParseCompare();
  ExpressionPtr expression = Make(ExpressionKind::kUnary, place, "not");
  Add(expression.get(), ParseNot());
  return expression;
}

ExpressionPtr ExpressionParser::ParseCompare() {
  ExpressionPtr compare = Make(ExpressionKind::kCompare, tokens_.current().place);
  Add(compare.get(), ParseSum());
  while (true) {
    const Token& token = tokens_.current();
    const bool is_operator =
        token.kind == TokenKind::kOperator &&
        std::ranges::find(kCompareOperators, token.text) != std::end(kCompareOperators);
    if (is_operator || token.IsName("in")) {
      compare->operators.push_back(tokens_.Take().text);
    } else if (token.IsName("not") && tokens_.next().IsName("in")) {
      tokens_.Take();
      tokens_.Take();
      compare->operators.emplace_back("not in");
    } else {
      break;
    }
    Add(compare.get(), ParseSum());
  }
  return compare->operators.empty() ? std::move(compare->parts[0]) : std::move(compare);
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr left = ParseConcat();
  while (tokens_.current().Is("+") || tokens_.current().Is("-")) {
    const Token op = tokens_.Take();
    left = MakeBinary(ExpressionKind::kBinary, op.place, op.text, std::move(left), ParseConcat());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseConcat() {
  ExpressionPtr concat = Make(ExpressionKind::kConcat, tokens_.current().place);
  Add(concat.get(), ParseProduct());
  while (tokens_.Skip("~")) Add(concat.get(), ParseProduct());
  return concat->parts.size() == 1 ? std::move(concat->parts[0]) : std::move(concat);
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr left = ParsePower();
  while (tokens_.current().Is("*") || tokens_.current().Is("/") || tokens_.current().Is("//") ||
         tokens_.current().Is("%")) {
    const Token op = tokens_.Take();
    left = MakeBinary(ExpressionKind::kBinary, op.place, op.text, std::move(left), ParsePower());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr left = ParseUnary();
  while (tokens_.current().Is("**")) {
    const Token op = tokens_.Take();
    left = MakeBinary(ExpressionKind::kBinary, op.place, op.text, std::move(left), ParseUnary());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filter) {
  const Token& token = tokens_.current();
  const Level level(&nesting_, token.place);
  ExpressionPtr operand;
  if (token.Is("-") || token.Is("+")) {
    const Token op = tokens_.Take();
    operand = Make(ExpressionKind::kUnary, op.place, op.text);
    Add(operand.get(), ParseUnary(/*with_filter=*/false));
  } else {
    operand = ParsePrimary();
  }
  operand = ParsePostfix(std::move(operand));
  return with_filter ? ParseFilters(std::move(operand)) : std::move(operand);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = tokens_.current();
  const Place place = token.place;
  switch (token.kind) {
    case TokenKind::kName:
      return ParseNameOrConstant();
    case TokenKind::kString: {
      std::string text;
      while (tokens_.current().kind == TokenKind::kString) text += tokens_.Take().text;
      return MakeConstant(place, Value::MakeText(std::move(text)));
    }
    case TokenKind::kInteger:
      return MakeConstant(place, Value::MakeInt(tokens_.Take().integer));
    case TokenKind::kFloat:
      return MakeConstant(place, Value::MakeFloat(tokens_.Take().number));
    default:
      break;
  }
  if (token.Is("[") || token.Is("{")) return ParseListOrDict();
  if (!tokens_.Skip("(")) tokens_.FailHere("an expression");
  ExpressionPtr inner = ParseTuple(/*with_conditional=*/true, /*in_parentheses=*/true);
  tokens_.Expect(")");
  return inner;
}

ExpressionPtr ExpressionParser::ParseNameOrConstant() {
  const Token token = tokens_.Take();
  if (token.text == "true" || token.text == "True") {
    return MakeConstant(token.place, Value::MakeBool(true));
  }
  if (token.text == "false" || token.text == "False") {
    return MakeConstant(token.place, Value::MakeBool(false));
  }
  if (token.text == "none" || token.text == "None") return MakeConstant(token.place, Value());
  return Make(ExpressionKind::kName, token.place, token.text);
}

ExpressionPtr ExpressionParser::ParseListOrDict() {
  const Token open = tokens_.Take();
  const bool is_dict = open.text == "{";
  const std::string_view close = is_dict ? "}" : "]";
  ExpressionPtr expression =
      Make(is_dict ? ExpressionKind::kDict : ExpressionKind::kList, open.place);
  while (!tokens_.current().Is(close)) {
    if (!expression->parts.empty()) tokens_.Expect(",");
    if (tokens_.current().Is(close)) break;
    Add(expression.get(), Parse());
    if (!is_dict) continue;
    tokens_.Expect(":");
    Add(expression.get(), Parse());
  }
  tokens_.Expect(close);
  return expression;
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr operand) {
  while (true) {
    if (tokens_.current().Is(".")) {
      operand = ParseAttribute(std::move(operand));
    } else if (tokens_.current().Is("[")) {
      operand = ParseSubscript(std::move(operand));
    } else if (tokens_.current().Is("(")) {
      ExpressionPtr call = Make(ExpressionKind::kCall, tokens_.current().place);
      Add(call.get(), std::move(operand));
      ParseArguments(call.get());
      operand = std::move(call);
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::ParseAttribute(ExpressionPtr operand) {
  const Place place = tokens_.Take().place;
  const Token attribute = tokens_.Take();
  if (attribute.kind == TokenKind::kInteger) {
    return MakeBinary(ExpressionKind::kSubscript, place, "", std::move(operand),
                      MakeConstant(attribute.place, Value::MakeInt(attribute.integer)));
  }
  if (attribute.kind != TokenKind::kName) {
    Fail("expected a name or a number after '.', found " + Describe(attribute), attribute.place);
  }
  ExpressionPtr expression = Make(ExpressionKind::kAttribute, place, attribute.text);
  Add(expression.get(), std::move(operand));
  return expression;
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr operand) {
  const Place place = tokens_.Take().place;
  ExpressionPtr begin = tokens_.current().Is(":") ? nullptr : Parse();
  if (begin != nullptr && tokens_.current().Is(",")) {
    ExpressionPtr tuple = Make(ExpressionKind::kTuple, begin->place);
    Add(tuple.get(), std::move(begin));
    while (tokens_.Skip(",")) Add(tuple.get(), Parse());
    begin = std::move(tuple);
  }
  if (begin != nullptr && tokens_.Skip("]")) {
    return MakeBinary(ExpressionKind::kSubscript, place, "", std::move(operand), std::move(begin));
  }
  ExpressionPtr slice = Make(ExpressionKind::kSlice, place);
  Add(slice.get(), std::move(operand));
  Add(slice.get(), std::move(begin));
  for (int i = 0; i < 2; ++i) {
    // The second colon is optional.
    const bool has_colon = i == 0 || tokens_.current().Is(":");
    if (has_colon) tokens_.Expect(":");
    const bool is_empty = !has_colon || tokens_.current().Is(":") || tokens_.current().Is("]");
    Add(slice.get(), is_empty ? nullptr : Parse());
  }
  tokens_.Expect("]");
  return slice;
}

void ExpressionParser::ParseArguments(Expression* call) {
  tokens_.Expect("(");
  bool is_first = true;
  while (!tokens_.current().Is(")")) {
    if (!std::exchange(is_first, false)) tokens_.Expect(",");
    if (tokens_.current().Is(")")) break;
    ParseArgument(call);
  }
  tokens_.Expect(")");
}

void ExpressionParser::ParseArgument(Expression* call) {
  if (call->all_named != nullptr) tokens_.FailHere("')' after the argument with '**'");
  if (tokens_.Skip("**")) {
    call->all_named = Parse();
    return Grow(call, call->all_named);
  }
  if (tokens_.current().kind == TokenKind::kName && tokens_.next().Is("=")) {
    const Place place = tokens_.current().place;
    std::string name = tokens_.Take().text;
    tokens_.Take();
    const bool is_known = std::ranges::any_of(
        call->named, [&](const auto& argument) { return argument.first == name; });
    if (is_known) Fail("the argument '" + name + "' is given twice", place);
    ExpressionPtr value = Parse();
    Grow(call, value);
    call->named.emplace_back(std::move(name), std::move(value));
    return;
  }
  if (call->all != nullptr) tokens_.FailHere("a named argument");
  if (tokens_.Skip("*")) {
    call->all = Parse();
    return Grow(call, call->all);
  }
  if (!call->named.empty()) tokens_.FailHere("a named argument");
  Add(call, Parse());
}

void ExpressionParser::AddUnknown(const std::string& what, Place place) {
  if (is_soft_) return;
  unknown_.push_back({absl::StatusCode::kUnimplemented, what + " is not supported", place});
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr operand) {
  while (true) {
    if (tokens_.current().Is("|")) {
      tokens_.Take();
      operand = ParseFilter(std::move(operand));
    } else if (tokens_.current().IsName("is")) {
      operand = ParseTest(std::move(operand));
    } else if (tokens_.current().Is("(")) {
      operand = ParsePostfix(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilterChain() {
  ExpressionPtr chain = ParseFilter(nullptr);
  while (tokens_.Skip("|")) chain = ParseFilter(std::move(chain));
  return chain;
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr operand) {
  const Place place = tokens_.current().place;
  std::string name = tokens_.ExpectAnyName();
  while (tokens_.Skip(".")) name += "." + tokens_.ExpectAnyName();
  if (!IsFilter(name)) AddUnknown("the filter '" + name + "'", place);
  ExpressionPtr filter = Make(ExpressionKind::kFilter, place, std::move(name));
  Add(filter.get(), std::move(operand));
  if (tokens_.current().Is("(")) ParseArguments(filter.get());
  return filter;
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr operand) {
  const Place place = tokens_.Take().place;
  const bool is_negated = tokens_.SkipName("not");
  const Place name_place = tokens_.current().place;
  std::string name = tokens_.ExpectAnyName();
  while (tokens_.Skip(".")) name += "." + tokens_.ExpectAnyName();
  if (!IsTest(name)) AddUnknown("the test '" + name + "'", name_place);
  ExpressionPtr test = Make(ExpressionKind::kTest, place, std::move(name));
  Add(test.get(), std::move(operand));
  const Token& token = tokens_.current();
  const bool begins_operand = token.kind == TokenKind::kString ||
                              token.kind == TokenKind::kInteger ||
                              token.kind == TokenKind::kFloat || token.Is("[") || token.Is("{") ||
                              (token.kind == TokenKind::kName && token.text != "else" &&
                               token.text != "or" && token.text != "and" && token.text != "is");
  if (token.IsName("is")) Fail("tests cannot be chained with 'is'", token.place);
  if (token.Is("(")) {
    ParseArguments(test.get());
  } else if (begins_operand) {
    Add(test.get(), ParsePostfix(ParsePrimary()));
  }
  if (!is_negated) return test;
  ExpressionPtr negated = Make(ExpressionKind::kUnary, place, "not");
  Add(negated.get(), std::move(test));
  return negated;
}

}  // namespace longstream::chat
