// Runs {% for %} loops.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/interpreter.h"
#include "service/jinja/interpreter_scope.h"
#include "service/jinja/values/error.h"

namespace longstream::chat {
namespace {

// Stops a loop's search for items when the loop ends, because the search uses the stack of RunLoop.
class SearchEnd {
 public:
  explicit SearchEnd(Loop* loop) : loop_(loop) {}
  ~SearchEnd() { loop_->more = nullptr; }
  SearchEnd(const SearchEnd&) = delete;
  SearchEnd& operator=(const SearchEnd&) = delete;

 private:
  Loop* const loop_;
};

}  // namespace

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  const Value iterated = Evaluate(*statement.expression);
  auto loop = std::make_shared<Loop>();
  if (!statement.is_recursive) return RunLoop(statement, iterated, loop);
  loop->recursive = &statement;
  loop->closure = Keep();
  // The body of a recursive loop is a function, which returns a text.
  Text text;
  {
    const InOutput output(this, &text);
    RunLoop(statement, iterated, loop);
  }
  Print(Value::MakeText(std::move(text)));
  return Flow::kNext;
}

Value Interpreter::CallLoop(const Loop& loop, const Arguments& arguments) {
  if (loop.recursive == nullptr) {
    Fail("only a loop that is marked 'recursive' can be called");
  }
  const ArgumentReader reader("loop", arguments, {"iterable"}, 1);
  auto inner = std::make_shared<Loop>();
  inner->recursive = loop.recursive;
  inner->closure = loop.closure;
  inner->level = loop.level + 1;
  Text text;
  const InScope scope(this, closures_[loop.closure]);
  const InOutput output(this, &text);
  RunLoop(*loop.recursive, reader.Get(0), inner);
  return Value::MakeText(std::move(text));
}

std::vector<Value> Interpreter::LoopItems(const Statement& statement, const Value& iterated) {
  try {
    return Elements(iterated, &meter_);
  } catch (TemplateError& error) {
    if (error.place.line == 0) error.place = statement.expression->place;
    throw;
  }
}

bool Interpreter::Passes(const Statement& statement, const std::shared_ptr<Scope>& scope,
                         const Value& item) {
  if (statement.condition == nullptr) return true;
  const InScope inner(this, scope);
  Assign(statement.target, item);
  return Evaluate(*statement.condition).Truth();
}

Interpreter::Flow Interpreter::RunItem(const Statement& statement,
                                       const std::shared_ptr<Loop>& loop, const Value& item) {
  const InScope scope(this, scope_);
  if (statement.uses_loop) SetName("loop", Value::MakeLoop(loop));
  Assign(statement.target, item);
  return Execute(statement.body);
}

Interpreter::Flow Interpreter::RunLoop(const Statement& statement, const Value& iterated,
                                       const std::shared_ptr<Loop>& loop) {
  std::vector<Value> source = LoopItems(statement, iterated);
  const SearchEnd end(loop.get());
  for (const Value& item : source) loop->depth = std::max(loop->depth, item.depth() + 1);
  // The condition of an item is evaluated when the loop reaches the item, or when the body asks for
  // the next item or the number of items.
  size_t next = 0;
  bool is_searching = false;
  if (statement.condition == nullptr) {
    loop->items = std::move(source);
  } else {
    loop->more = [&, scope = scope_] {
      if (is_searching) Fail("the condition of a loop asks for its items");
      is_searching = true;
      bool found = false;
      while (!found && next < source.size()) {
        const Value& item = source[next++];
        found = Passes(statement, scope, item);
        if (found) loop->items.push_back(item);
      }
      is_searching = false;
      return found;
    };
  }
  // As in Jinja: if every round of the loop ended with break or continue, the else branch runs.
  bool ran = false;
  for (size_t i = 0; i < loop->items.size() || (loop->more && loop->more()); ++i) {
    loop->index = i;
    const Value item = loop->items[i];
    const Flow flow = RunItem(statement, loop, item);
    if (flow == Flow::kBreak) break;
    ran |= flow == Flow::kNext;
  }
  if (ran) return Flow::kNext;
  const InScope scope(this, scope_);
  return Execute(statement.otherwise);
}

Value Interpreter::LoopChanged(Loop* loop, const Arguments& arguments) {
  if (!arguments.named.empty()) Fail("loop.changed takes no named arguments");
  Value values = Value::MakeList(arguments.positional, ListKind::kTuple);
  if (!loop->changed) {
    meter_.MakeList(1);
    loop->changed = changed_.size();
    changed_.push_back(std::move(values));
    return Value::MakeBool(true);
  }
  Value& before = changed_[*loop->changed];
  if (Equal(before, values, &meter_)) return Value::MakeBool(false);
  before = std::move(values);
  return Value::MakeBool(true);
}

}  // namespace longstream::chat
