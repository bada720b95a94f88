// Renders a template by running its syntax tree.
#ifndef LONGSTREAM_SERVICE_JINJA_INTERPRETER_H_
#define LONGSTREAM_SERVICE_JINJA_INTERPRETER_H_

#include <cstddef>
#include <ctime>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/syntax/syntax_tree.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// Renders one template once. Throws TemplateError. Not thread-safe.
class Interpreter {
 public:
  // `variables`: the names that the template may use in addition to the global functions. They
  // outlive the interpreter. `now`: the local time that strftime_now formats.
  Interpreter(const Dict& variables, const std::tm& now, const RenderLimits& limits)
      : variables_(variables), now_(now), meter_(limits) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text Run(const Body& body);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // The names of one block. Names of outer scopes are visible in it too.
  struct Scope {
    Scope* outer = nullptr;
    std::vector<std::pair<std::string_view, Value>> names;
  };

  // While the object exists: InScope enters a scope, InOutput redirects the output, Level counts a
  // level of nesting.
  class InScope;
  class InOutput;
  class Level;

  Flow Execute(const Body& body);
  Flow ExecuteStatement(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  void Print(const Value& value);
  Text Capture(const Body& body);
  // Runs the body in a new scope and applies the chain of filters to its text.
  Value CaptureFiltered(const Statement& statement);

  void Assign(const Target& target, Value value);
  void SetName(std::string_view name, Value value);
  void SetAttribute(const Target& target, Value value);
  const Value* FindName(std::string_view name) const;

  Value Evaluate(const Expression& expression);
  Value EvaluateKind(const Expression& expression);
  Value EvaluateName(const Expression& expression);
  Value EvaluateDict(const Expression& expression);
  Value EvaluateCompare(const Expression& expression);
  Value EvaluateConcat(const Expression& expression);
  Value EvaluateConditional(const Expression& expression);
  Value EvaluateSlice(const Expression& expression);
  Value EvaluateCall(const Expression& expression);
  Value EvaluateAttribute(const Expression& expression);
  Value EvaluateFilter(const Expression& expression, const Value* input);
  std::vector<Value> EvaluateAll(const std::vector<ExpressionPtr>& parts, size_t first);
  Arguments EvaluateArguments(const Expression& call);

  Value CallMacro(const Statement& macro, const Arguments& arguments);
  Value CallFunction(std::string_view name, const Arguments& arguments);
  Value MakeNamespace(const Arguments& arguments);
  Value Range(const Arguments& arguments);
  Value FormatNow(const Arguments& arguments);

  const Dict& variables_;
  const std::tm now_;
  Meter meter_;
  Scope root_;
  Scope* scope_ = &root_;
  Text* output_ = nullptr;
  size_t depth_ = 0;
  std::deque<Namespace> namespaces_;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_INTERPRETER_H_
