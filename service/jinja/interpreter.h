// Renders a template by running its syntax tree.
#ifndef LONGSTREAM_SERVICE_JINJA_INTERPRETER_H_
#define LONGSTREAM_SERVICE_JINJA_INTERPRETER_H_

#include <cstddef>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
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
    std::shared_ptr<Scope> outer;
    std::vector<std::pair<std::string_view, Value>> names;
    bool is_kept = false;  // see Keep
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
  Flow ExecuteWith(const Statement& statement);
  void ExecuteCall(const Statement& statement);
  void Print(const Value& value);
  Text Capture(const Body& body);
  // Runs the body in a new scope. Sets *result to its text, to which the chain of filters has been
  // applied, unless the body leaves a loop.
  Flow CaptureFiltered(const Statement& statement, Value* result);

  // Runs a loop over the value. `loop` is its variable.
  Flow RunLoop(const Statement& statement, const Value& iterated,
               const std::shared_ptr<Loop>& loop);
  // Runs the body for one item.
  Flow RunItem(const Statement& statement, const std::shared_ptr<Loop>& loop, const Value& item);
  std::vector<Value> LoopItems(const Statement& statement, const Value& iterated);
  // Whether the condition of the loop holds for the item. Reads names in `scope`.
  bool Passes(const Statement& statement, const std::shared_ptr<Scope>& scope, const Value& item);
  // loop(iterable) in a recursive loop.
  Value CallLoop(const Loop& loop, const Arguments& arguments);
  // loop.changed(values): whether the values differ from those of the call before.
  Value LoopChanged(Loop* loop, const Arguments& arguments);

  // Keeps the current scope until the rendering ends and returns its index in closures_. A macro
  // refers to its scope by this index. It cannot own the scope, because the scope may hold the
  // macro.
  size_t Keep();
  Value MakeMacro(const Statement& statement, std::string name);

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
  // `caller`: the body of the {% call %} block that makes the call, which becomes the argument
  // `caller`, or nullptr.
  Value EvaluateCall(const Expression& expression, const Value* caller = nullptr);
  Value EvaluateAttribute(const Expression& expression);
  Value EvaluateFilter(const Expression& expression, const Value* input);
  std::vector<Value> EvaluateAll(const std::vector<ExpressionPtr>& parts, size_t first);
  Arguments EvaluateArguments(const Expression& call, const Value* caller = nullptr);
  // Appends the members of a dict, f(**dict), to the named arguments.
  void AddNamed(const Value& dict, Arguments* arguments);

  Value CallMacro(const Callable& callable, Arguments arguments);
  void BindParameters(const Statement& macro, const std::string& what, Arguments* arguments);
  Value CallFunction(std::string_view name, const Arguments& arguments);
  Value MakeDict(const Arguments& arguments);
  Value MakeNamespace(const Arguments& arguments);
  Value Range(const Arguments& arguments);
  Value FormatNow(const Arguments& arguments);

  const Dict& variables_;
  const std::tm now_;
  Meter meter_;
  const std::shared_ptr<Scope> root_ = std::make_shared<Scope>();
  std::shared_ptr<Scope> scope_ = root_;
  std::vector<std::shared_ptr<Scope>> closures_ = {root_};
  std::vector<Value> changed_;  // the values of the last calls of loop.changed
  Text* output_ = nullptr;
  size_t depth_ = 0;
  std::deque<Namespace> namespaces_;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_INTERPRETER_H_
