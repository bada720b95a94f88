// Executes the statements of a template and the calls in its expressions.
#include "service/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/interpreter_scope.h"
#include "service/jinja/values/error.h"

namespace longstream::chat {

Text Interpreter::Run(const Body& body) { return Capture(body); }

Text Interpreter::Capture(const Body& body) {
  Text text;
  const InOutput output(this, &text);
  Execute(body);
  return text;
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  for (const std::unique_ptr<Statement>& statement : body) {
    const Flow flow = ExecuteStatement(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteStatement(const Statement& statement) {
  const Level level(this, statement.place);
  switch (statement.kind) {
    case StatementKind::kText:
      meter_.Make(statement.text.size());
      output_->Append(statement.text);
      return Flow::kNext;
    case StatementKind::kPrint:
      Print(Evaluate(*statement.expression));
      return Flow::kNext;
    case StatementKind::kIf:
      return ExecuteIf(statement);
    case StatementKind::kFor:
      return ExecuteFor(statement);
    case StatementKind::kSet:
      Assign(statement.target, Evaluate(*statement.expression));
      return Flow::kNext;
    case StatementKind::kSetBlock:
      Assign(statement.target, CaptureFiltered(statement));
      return Flow::kNext;
    case StatementKind::kFilter:
      Print(CaptureFiltered(statement));
      return Flow::kNext;
    case StatementKind::kMacro: {
      if (scope_ != &root_) FailUnsupported("a macro within a block", statement.place);
      Callable macro;
      macro.kind = Callable::Kind::kMacro;
      macro.name = statement.name;
      macro.macro = &statement;
      SetName(statement.name, Value::MakeCallable(std::move(macro)));
      return Flow::kNext;
    }
    case StatementKind::kScope: {
      const InScope scope(this, scope_);
      return Execute(statement.body);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::Print(const Value& value) {
  const Text text = ToText(value, &meter_);
  meter_.Make(text.size());
  output_->Append(text);
}

Value Interpreter::CaptureFiltered(const Statement& statement) {
  Value text;
  {
    const InScope scope(this, scope_);
    text = Value::MakeText(Capture(statement.body));
  }
  return statement.expression == nullptr ? text : EvaluateFilter(*statement.expression, &text);
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (Evaluate(*branch.condition).Truth()) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  std::vector<Value> items;
  const Value iterated = Evaluate(*statement.expression);
  try {
    items = Elements(iterated, &meter_);
  } catch (TemplateError& error) {
    if (error.place.line == 0) error.place = statement.expression->place;
    throw;
  }
  // Like Jinja, checks the condition of an item when the loop reaches the item. But if the body
  // uses `loop`, all conditions are checked before the loop, because `loop` knows the number of
  // items.
  const auto passes = [&](const Value& item) {
    if (statement.condition == nullptr) return true;
    const InScope scope(this, scope_);
    Assign(statement.target, item);
    return Evaluate(*statement.condition).Truth();
  };
  if (statement.uses_loop) {
    std::erase_if(items, [&](const Value& item) { return !passes(item); });
  }
  auto loop = std::make_shared<Loop>();
  const Value list = Value::MakeList(std::move(items));
  loop->items = list.shared_list();
  bool ran = false;
  for (const Value& item : loop->items->items) {
    if (!statement.uses_loop && !passes(item)) continue;
    const InScope scope(this, scope_);
    if (statement.uses_loop) SetName("loop", Value::MakeLoop(loop));
    Assign(statement.target, item);
    const Flow flow = Execute(statement.body);
    ++loop->index;
    if (flow == Flow::kBreak) break;
    // As in Jinja: if every round of the loop ended with break or continue, the else branch runs.
    ran |= flow == Flow::kNext;
  }
  if (ran) return Flow::kNext;
  const InScope scope(this, scope_);
  return Execute(statement.otherwise);
}

void Interpreter::Assign(const Target& target, Value value) {
  if (!target.attribute.empty()) return SetAttribute(target, std::move(value));
  if (!target.is_tuple) return SetName(target.names[0], std::move(value));
  RequireDefined(value);
  const std::vector<Value> parts = Elements(value, &meter_);
  if (parts.size() != target.names.size()) {
    Fail("expected " + std::to_string(target.names.size()) + " values to unpack, found " +
             std::to_string(parts.size()),
         target.place);
  }
  for (size_t i = 0; i < parts.size(); ++i) SetName(target.names[i], parts[i]);
}

void Interpreter::SetName(std::string_view name, Value value) {
  for (auto& [known, held] : scope_->names) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  scope_->names.emplace_back(name, std::move(value));
}

void Interpreter::SetAttribute(const Target& target, Value value) {
  const Value* object = FindName(target.names[0]);
  if (object == nullptr || !object->is_namespace()) {
    Fail("'" + target.names[0] + "' is not a namespace, so its attributes cannot be set",
         target.place);
  }
  if (target.attribute.starts_with('_')) {
    Fail("attributes of a namespace may not begin with '_'", target.place);
  }
  auto& attributes = object->object()->attributes;
  const auto found = std::ranges::find(attributes, target.attribute,
                                       [](const auto& attribute) { return attribute.first; });
  if (found == attributes.end()) {
    attributes.emplace_back(target.attribute, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

const Value* Interpreter::FindName(std::string_view name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return variables_.Find(name);
}

Value Interpreter::CallMacro(const Statement& macro, const Arguments& arguments) {
  const std::string what = "the macro '" + macro.name + "'";
  const std::vector<Parameter>& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    Fail(what + " takes at most " + std::to_string(parameters.size()) + " arguments");
  }
  const InScope scope(this, &root_);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const auto named = std::ranges::find(arguments.named, parameter.name,
                                         [](const auto& argument) { return argument.first; });
    const bool is_named = named != arguments.named.end();
    if (i < arguments.positional.size()) {
      if (is_named) Fail(what + " was given '" + parameter.name + "' twice");
      SetName(parameter.name, arguments.positional[i]);
    } else if (is_named) {
      SetName(parameter.name, named->second);
    } else if (parameter.otherwise != nullptr) {
      SetName(parameter.name, Evaluate(*parameter.otherwise));
    } else {
      SetName(parameter.name,
              Value::MakeUndefined("parameter '" + parameter.name + "' was not provided"));
    }
  }
  for (const auto& argument : arguments.named) {
    const bool is_known = std::ranges::any_of(
        parameters, [&](const Parameter& parameter) { return parameter.name == argument.first; });
    if (!is_known) Fail(what + " has no parameter '" + argument.first + "'");
  }
  return Value::MakeText(Capture(macro.body));
}

}  // namespace longstream::chat
