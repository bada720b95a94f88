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
    case StatementKind::kSetBlock: {
      Value text;
      const Flow flow = CaptureFiltered(statement, &text);
      if (flow == Flow::kNext) Assign(statement.target, std::move(text));
      return flow;
    }
    case StatementKind::kFilter: {
      Value text;
      const Flow flow = CaptureFiltered(statement, &text);
      if (flow == Flow::kNext) Print(text);
      return flow;
    }
    case StatementKind::kMacro:
      SetName(statement.name, MakeMacro(statement, statement.name));
      return Flow::kNext;
    case StatementKind::kCall:
      ExecuteCall(statement);
      return Flow::kNext;
    case StatementKind::kWith:
      return ExecuteWith(statement);
    case StatementKind::kScope: {
      const InScope scope(this, scope_);
      return Execute(statement.body);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kUnsupported:
      FailUnsupported("the tag {% " + statement.name + " %}", statement.place);
  }
  return Flow::kNext;
}

void Interpreter::Print(const Value& value) {
  const Text text = ToText(value, &meter_);
  meter_.Make(text.size());
  output_->Append(text);
}

Interpreter::Flow Interpreter::CaptureFiltered(const Statement& statement, Value* result) {
  Text text;
  {
    const InScope scope(this, scope_);
    const InOutput output(this, &text);
    const Flow flow = Execute(statement.body);
    if (flow != Flow::kNext) return flow;
  }
  *result = Value::MakeText(std::move(text));
  if (statement.expression != nullptr) {
    const Value input = *result;
    *result = EvaluateFilter(*statement.expression, &input);
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  values.reserve(statement.assignments.size());
  for (const Assignment& assignment : statement.assignments) {
    values.push_back(Evaluate(*assignment.value));
  }
  const InScope scope(this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    Assign(statement.assignments[i].target, std::move(values[i]));
  }
  return Execute(statement.body);
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (Evaluate(*branch.condition).Truth()) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

void Interpreter::Assign(const Target& target, Value value) {
  if (!target.attribute.empty()) return SetAttribute(target, std::move(value));
  if (!target.is_tuple) return SetName(target.name, std::move(value));
  RequireDefined(value);
  const std::vector<Value> parts = Elements(value, &meter_);
  if (parts.size() != target.parts.size()) {
    Fail("expected " + std::to_string(target.parts.size()) + " values to unpack, found " +
             std::to_string(parts.size()),
         target.place);
  }
  for (size_t i = 0; i < parts.size(); ++i) Assign(target.parts[i], parts[i]);
}

void Interpreter::SetName(std::string_view name, Value value) {
  for (auto& [known, held] : scope_->names) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  if (scope_->is_kept) meter_.MakeList(1);
  scope_->names.emplace_back(name, std::move(value));
}

size_t Interpreter::Keep() {
  if (scope_ == root_) return 0;
  if (closures_.back() == scope_) return closures_.size() - 1;
  constexpr size_t kElementsOfScope = 4;  // the memory of a scope, in elements of a list
  for (Scope* scope = scope_.get(); scope != nullptr && !scope->is_kept;
       scope = scope->outer.get()) {
    meter_.MakeList(kElementsOfScope + scope->names.size());
    scope->is_kept = true;
  }
  meter_.MakeList(1);
  closures_.push_back(scope_);
  return closures_.size() - 1;
}

void Interpreter::SetAttribute(const Target& target, Value value) {
  const Value* object = FindName(target.name);
  if (object == nullptr || !object->is_namespace()) {
    Fail("'" + target.name + "' is not a namespace, so its attributes cannot be set", target.place);
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
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return variables_.Find(name);
}

}  // namespace longstream::chat
