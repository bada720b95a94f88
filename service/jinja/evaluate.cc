// Evaluates expressions and the global functions of templates.
#include <array>
#include <string>
#include <utility>

#include "service/jinja/builtins/filters.h"
#include "service/jinja/builtins/methods.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/interpreter.h"
#include "service/jinja/interpreter_scope.h"
#include "service/jinja/values/names.h"

namespace longstream::chat {
namespace {

constexpr std::array<std::string_view, 5> kFunctions = {"raise_exception", "strftime_now",
                                                        "namespace", "range", "dict"};
constexpr std::array<std::string_view, 3> kUnsupportedFunctions = {"lipsum", "cycler", "joiner"};

}  // namespace

Value Interpreter::Evaluate(const Expression& expression) {
  const Level level(this, expression.place);
  try {
    return EvaluateKind(expression);
  } catch (TemplateError& error) {
    if (error.place.line == 0) error.place = expression.place;
    throw;
  }
}

Value Interpreter::EvaluateKind(const Expression& expression) {
  const std::vector<ExpressionPtr>& parts = expression.parts;
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.value;
    case ExpressionKind::kName:
      return EvaluateName(expression);
    case ExpressionKind::kList:
      return Value::MakeList(EvaluateAll(parts, 0));
    case ExpressionKind::kTuple:
      return Value::MakeList(EvaluateAll(parts, 0), ListKind::kTuple);
    case ExpressionKind::kDict:
      return EvaluateDict(expression);
    case ExpressionKind::kUnary: {
      const Value operand = Evaluate(*parts[0]);
      if (expression.name == "not") return Value::MakeBool(!operand.Truth());
      return Unary(expression.name, operand);
    }
    case ExpressionKind::kBinary: {
      const Value left = Evaluate(*parts[0]);
      return Binary(expression.name, left, Evaluate(*parts[1]), &meter_);
    }
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression);
    case ExpressionKind::kAnd: {
      Value left = Evaluate(*parts[0]);
      return left.Truth() ? Evaluate(*parts[1]) : left;
    }
    case ExpressionKind::kOr: {
      Value left = Evaluate(*parts[0]);
      return left.Truth() ? left : Evaluate(*parts[1]);
    }
    case ExpressionKind::kConcat:
      return EvaluateConcat(expression);
    case ExpressionKind::kConditional:
      return EvaluateConditional(expression);
    case ExpressionKind::kAttribute:
      return EvaluateAttribute(expression);
    case ExpressionKind::kSubscript: {
      const Value value = Evaluate(*parts[0]);
      return Item(value, Evaluate(*parts[1]), &meter_);
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression);
    case ExpressionKind::kFilter:
      return EvaluateFilter(expression, nullptr);
    case ExpressionKind::kTest: {
      const Value value = Evaluate(*parts[0]);
      return Value::MakeBool(
          ApplyTest(expression.name, value, EvaluateArguments(expression), &meter_));
    }
  }
  return Value();
}

Value Interpreter::EvaluateName(const Expression& expression) {
  if (const Value* value = FindName(expression.name)) return *value;
  if (Has(kUnsupportedFunctions, expression.name)) {
    FailUnsupported("the function '" + expression.name + "'");
  }
  if (!Has(kFunctions, expression.name)) {
    return Value::MakeUndefined("'" + expression.name + "' is undefined");
  }
  Callable function;
  function.name = expression.name;
  return Value::MakeCallable(std::move(function));
}

std::vector<Value> Interpreter::EvaluateAll(const std::vector<ExpressionPtr>& parts, size_t first) {
  std::vector<Value> values;
  meter_.MakeList(parts.size() - first);
  for (size_t i = first; i < parts.size(); ++i) values.push_back(Evaluate(*parts[i]));
  return values;
}

Value Interpreter::EvaluateDict(const Expression& expression) {
  Dict dict;
  meter_.MakeList(expression.parts.size());
  for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    Value key = Evaluate(*expression.parts[i]);
    RequireKey(key, &meter_);
    dict.Set(std::move(key), Evaluate(*expression.parts[i + 1]));
  }
  return Value::MakeDict(std::move(dict));
}

Value Interpreter::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.parts[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.parts[i + 1]);
    if (!Related(expression.operators[i], left, right, &meter_)) return Value::MakeBool(false);
    left = std::move(right);
  }
  return Value::MakeBool(true);
}

Value Interpreter::EvaluateConcat(const Expression& expression) {
  Text text;
  for (const ExpressionPtr& part : expression.parts) {
    const Text more = ToText(Evaluate(*part), &meter_);
    meter_.Make(more.size());
    text.Append(more);
  }
  return Value::MakeText(std::move(text));
}

Value Interpreter::EvaluateConditional(const Expression& expression) {
  if (Evaluate(*expression.parts[0]).Truth()) return Evaluate(*expression.parts[1]);
  if (expression.parts[2] != nullptr) return Evaluate(*expression.parts[2]);
  return Value::MakeUndefined("the condition of an inline if is false and it has no else");
}

Value Interpreter::EvaluateSlice(const Expression& expression) {
  const auto bound = [&](size_t i) {
    return expression.parts[i] == nullptr ? Value() : Evaluate(*expression.parts[i]);
  };
  const Value value = Evaluate(*expression.parts[0]);
  const Value begin = bound(1);
  const Value end = bound(2);
  return Slice(value, begin, end, bound(3), &meter_);
}

Value Interpreter::EvaluateAttribute(const Expression& expression) {
  const Value value = Evaluate(*expression.parts[0]);
  if (std::optional<Value> attribute = Attribute(value, expression.name)) return *attribute;
  if (value.is_dict()) {
    if (const Value* member = value.dict().Find(expression.name)) return *member;
  }
  return Value::MakeUndefined("'" + std::string(value.TypeName()) + " object' has no attribute '" +
                              expression.name + "'");
}

Value Interpreter::EvaluateFilter(const Expression& expression, const Value* input) {
  Value filtered;
  if (expression.parts[0] == nullptr) {
    filtered = *input;
  } else if (input != nullptr) {
    filtered = EvaluateFilter(*expression.parts[0], input);
  } else {
    filtered = Evaluate(*expression.parts[0]);
  }
  try {
    return ApplyFilter(expression.name, filtered, EvaluateArguments(expression), &meter_);
  } catch (TemplateError& error) {
    // The filters of a block are not evaluated by Evaluate, which does the same.
    if (error.place.line == 0) error.place = expression.place;
    throw;
  }
}

}  // namespace longstream::chat
