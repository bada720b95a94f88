// Calls macros, methods, loops and the global functions of templates.
#include <algorithm>
#include <string>
#include <utility>

#include "service/jinja/builtins/methods.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/interpreter.h"
#include "service/jinja/interpreter_scope.h"

namespace longstream::chat {

Arguments Interpreter::EvaluateArguments(const Expression& call, const Value* caller) {
  Arguments arguments;
  arguments.positional = EvaluateAll(call.parts, 1);
  if (call.all != nullptr) {
    const Value all = Evaluate(*call.all);
    for (Value& value : Elements(all, &meter_)) arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, value] : call.named) {
    arguments.named.emplace_back(Text(name), Evaluate(*value));
  }
  if (caller != nullptr) {
    const bool is_given = std::ranges::any_of(
        call.named, [](const auto& argument) { return argument.first == "caller"; });
    if (is_given) Fail("the argument 'caller' is given twice");
    arguments.named.emplace_back(Text("caller"), *caller);
  }
  if (call.all_named != nullptr) AddNamed(Evaluate(*call.all_named), &arguments);
  return arguments;
}

void Interpreter::AddNamed(const Value& dict, Arguments* arguments) {
  RequireDefined(dict);
  if (!dict.is_dict()) {
    Fail("the argument after '**' must be a dict, found " + std::string(dict.TypeName()));
  }
  const size_t given = arguments->named.size();
  meter_.MakeList(2 * dict.dict().size());
  for (const Dict::Entry& entry : dict.dict().entries()) {
    const Text& name = RequireText(entry.key, "a key of the dict after '**'");
    meter_.Make(name.size());
    meter_.Step(given);
    for (size_t i = 0; i < given; ++i) {
      if (arguments->named[i].first.bytes() == name.bytes()) {
        Fail("the argument '" + name.bytes() + "' is given twice");
      }
    }
    arguments->named.emplace_back(name, entry.value);
  }
}

Value Interpreter::EvaluateCall(const Expression& expression, const Value* caller) {
  const Value callee = Evaluate(*expression.parts[0]);
  RequireDefined(callee);
  Arguments arguments = EvaluateArguments(expression, caller);
  if (callee.is_loop()) return CallLoop(callee.loop(), arguments);
  if (!callee.is_callable()) {
    Fail("'" + std::string(callee.TypeName()) + "' cannot be called");
  }
  const Callable& callable = callee.callable();
  switch (callable.kind) {
    case Callable::Kind::kMacro:
      return CallMacro(callable, std::move(arguments));
    case Callable::Kind::kMethod:
      if (callable.self->is_loop() && callable.name == "changed") {
        return LoopChanged(&callable.self->loop(), arguments);
      }
      return CallMethod(callable, arguments, &meter_);
    case Callable::Kind::kFunction:
      break;
  }
  return CallFunction(callable.name, arguments);
}

void Interpreter::ExecuteCall(const Statement& statement) {
  const Expression& call = *statement.expression;
  const Value caller = MakeMacro(statement, "");
  try {
    const Value text = EvaluateCall(call, &caller);
    if (!text.is_text()) {
      Fail("{% call %} expects a call that returns a text, found " + std::string(text.TypeName()));
    }
    Print(text);
  } catch (TemplateError& error) {
    if (error.place.line == 0) error.place = call.place;
    throw;
  }
}

Value Interpreter::MakeMacro(const Statement& statement, std::string name) {
  Callable macro;
  macro.kind = Callable::Kind::kMacro;
  macro.name = std::move(name);
  macro.macro = &statement;
  macro.closure = Keep();
  return Value::MakeCallable(std::move(macro));
}

Value Interpreter::CallMacro(const Callable& callable, Arguments arguments) {
  const Statement& macro = *callable.macro;
  const InScope scope(this, closures_[callable.closure]);
  const std::string what =
      callable.name.empty() ? "the body of {% call %}" : "the macro '" + callable.name + "'";
  BindParameters(macro, what, &arguments);
  return Value::MakeText(Capture(macro.body));
}

void Interpreter::BindParameters(const Statement& macro, const std::string& what,
                                 Arguments* arguments) {
  const std::vector<Parameter>& parameters = macro.parameters;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    meter_.Step(arguments->named.size());
    const auto found = std::ranges::find_if(
        arguments->named, [&](const auto& argument) { return argument.first.bytes() == name; });
    if (found == arguments->named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments->named.erase(found);
    return value;
  };
  // Parameters without an argument are undefined until their default values are computed.
  std::vector<const Parameter*> absent;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    if (i < arguments->positional.size()) {
      SetName(name, arguments->positional[i]);
    } else if (std::optional<Value> value = take(name)) {
      SetName(name, *std::move(value));
    } else {
      SetName(name, Value::MakeUndefined("parameter '" + name + "' was not provided"));
      absent.push_back(&parameters[i]);
    }
  }
  if (macro.uses_caller) {
    const Value caller = take("caller").value_or(Value());
    SetName("caller", caller.is_none() ? Value::MakeUndefined("no caller is defined") : caller);
  }
  if (macro.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : arguments->named) rest.Set(std::move(name), std::move(value));
    SetName("kwargs", Value::MakeDict(std::move(rest)));
  } else if (!arguments->named.empty()) {
    const std::string& name = arguments->named[0].first.bytes();
    const bool is_parameter = std::ranges::any_of(
        parameters, [&](const Parameter& parameter) { return parameter.name == name; });
    Fail(is_parameter ? what + " was given '" + name + "' twice"
                      : what + " has no parameter '" + name + "'");
  }
  std::vector<Value>& positional = arguments->positional;
  if (macro.uses_varargs) {
    const size_t bound = std::min(parameters.size(), positional.size());
    std::vector<Value> rest(positional.begin() + static_cast<std::ptrdiff_t>(bound),
                            positional.end());
    SetName("varargs", Value::MakeList(std::move(rest), ListKind::kTuple));
  } else if (positional.size() > parameters.size()) {
    Fail(what + " takes at most " + std::to_string(parameters.size()) + " arguments");
  }
  for (const Parameter* parameter : absent) {
    if (parameter->otherwise != nullptr) {
      SetName(parameter->name, Evaluate(*parameter->otherwise));
    }
  }
}

Value Interpreter::CallFunction(std::string_view name, const Arguments& arguments) {
  if (name == "raise_exception") {
    const ArgumentReader reader("raise_exception", arguments, {"message"}, 1);
    Fail("the template refuses the conversation: " + ToText(reader.Get(0), &meter_).bytes());
  }
  if (name == "strftime_now") return FormatNow(arguments);
  if (name == "namespace") return MakeNamespace(arguments);
  if (name == "range") return Range(arguments);
  return MakeDict(arguments);
}

// dict(other, key=value ...). `other` is a dict or has pairs of keys and values as elements.
Value Interpreter::MakeDict(const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) Fail("dict takes at most one positional argument");
  if (!arguments.positional.empty()) {
    const Value& other = arguments.positional[0];
    RequireDefined(other);
    if (other.is_dict()) {
      meter_.MakeList(other.dict().size());
      dict = other.dict();
    } else {
      for (const Value& item : Elements(other, &meter_)) {
        const std::vector<Value> pair = Elements(item, &meter_);
        if (pair.size() != 2) Fail("dict: expected pairs of a key and a value");
        RequireKey(pair[0], &meter_);
        meter_.MakeList(2);
        dict.Set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.named) dict.Set(key, value);
  return Value::MakeDict(std::move(dict));
}

Value Interpreter::MakeNamespace(const Arguments& arguments) {
  const Value dict = MakeDict(arguments);
  meter_.MakeList(4 + dict.dict().size());
  Namespace& object = namespaces_.emplace_back();
  for (const Dict::Entry& entry : dict.dict().entries()) {
    if (!entry.key.is_text()) continue;  // no template can read it
    const std::string& name = entry.key.text().bytes();
    if (name.starts_with('_')) Fail("attributes of a namespace may not begin with '_'");
    object.attributes.emplace_back(name, entry.value);
  }
  return Value::MakeNamespace(&object);
}

Value Interpreter::Range(const Arguments& arguments) {
  constexpr int64_t kMostElements = 100'000;  // the limit of Jinja's sandbox
  const ArgumentReader reader("range", arguments, {"start", "stop", "step"}, 1);
  const bool has_stop = reader.Has(1);
  const int64_t start = has_stop ? reader.Integer(0, 0) : 0;
  const int64_t stop = has_stop ? reader.Integer(1, 0) : reader.Integer(0, 0);
  const int64_t step = reader.Integer(2, 1);
  if (step == 0) Fail("range: the step is 0");
  std::vector<Value> numbers;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    meter_.MakeList(1);
    if (static_cast<int64_t>(numbers.size()) == kMostElements) {
      Fail("range: more than " + std::to_string(kMostElements) + " numbers");
    }
    numbers.push_back(Value::MakeInt(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::MakeRange(std::move(numbers), start, stop, step);
}

Value Interpreter::FormatNow(const Arguments& arguments) {
  const ArgumentReader reader("strftime_now", arguments, {"format"}, 1);
  const Value given = reader.Get(0);
  const std::string& format = RequireText(given, "strftime_now").bytes();
  constexpr size_t kMostBytes = 1000;
  // Only format letters that mean the same on every platform are supported.
  constexpr std::string_view kDirectives = "aAbBdeHIjmMpSUwWyY%";
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    ++i;
    if (i < format.size() && format[i] == '-') ++i;
    if (i == format.size() || kDirectives.find(format[i]) == std::string_view::npos) {
      FailUnsupported("strftime_now with the format '" + format + "'");
    }
  }
  if (format.size() > kMostBytes) Fail("strftime_now: the format is too long");
  if (format.empty()) return Value::MakeText(Text());
  std::string text(16 * kMostBytes, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &now_));
  return Value::MakeText(given.text().Changed(std::move(text)));
}

}  // namespace longstream::chat
