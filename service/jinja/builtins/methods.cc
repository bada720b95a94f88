// The table of methods, and the methods of lists and dicts.
#include "service/jinja/builtins/methods.h"

#include <algorithm>
#include <array>
#include <utility>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/builtins/string_methods.h"
#include "service/jinja/values/names.h"

namespace longstream::chat {
namespace {

constexpr std::array<std::string_view, 5> kDictMethods = {"get", "items", "keys", "values", "copy"};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault",
                                                          "update"};
constexpr std::array<std::string_view, 3> kListMethods = {"index", "count", "copy"};
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};

// The value of a name that the sandbox forbids. A template that uses it fails.
Value Forbidden(std::string_view name) {
  return Value::MakeUndefined("'" + std::string(name) + "' is forbidden in templates");
}

Value MakeMethod(const Value& value, std::string_view name) {
  Callable method;
  method.kind = Callable::Kind::kMethod;
  method.name = name;
  method.self = std::make_shared<const Value>(value);
  return Value::MakeCallable(std::move(method));
}

std::optional<Value> LoopAttribute(const Value& value, std::string_view name) {
  const Loop& loop = value.loop();
  const auto number = [](size_t n) { return Value::MakeInt(static_cast<int64_t>(n)); };
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "first") return Value::MakeBool(loop.index == 0);
  if (name == "last") return Value::MakeBool(!loop.HasNext());
  if (name == "length") return number(loop.Length());
  if (name == "revindex") return number(loop.Length() - loop.index);
  if (name == "revindex0") return number(loop.Length() - loop.index - 1);
  if (name == "depth") return number(loop.level + 1);
  if (name == "depth0") return number(loop.level);
  if (name == "previtem") {
    return loop.index > 0 ? loop.items[loop.index - 1]
                          : Value::MakeUndefined("there is no previous item");
  }
  if (name == "nextitem") {
    return loop.HasNext() ? loop.items[loop.index + 1]
                          : Value::MakeUndefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") return MakeMethod(value, name);
  return std::nullopt;
}

Value CallDictMethod(const Dict& dict, const Callable& method, const Arguments& arguments,
                     Meter* meter) {
  const std::string what = "dict." + method.name;
  if (method.name == "get") {
    const ArgumentReader reader(what, arguments, {"key", "default"}, 1);
    const Value key = reader.Get(0);
    RequireKey(key, meter);
    const Value* found = dict.Find(key);
    return found != nullptr ? *found : reader.Get(1);
  }
  const ArgumentReader reader(what, arguments, {});
  if (method.name == "copy") return *method.self;
  if (method.name == "items") return Items(dict, meter, ListKind::kView);
  std::vector<Value> parts;
  meter->MakeList(dict.size());
  for (const Dict::Entry& entry : dict.entries()) {
    parts.push_back(method.name == "keys" ? entry.key : entry.value);
  }
  return Value::MakeList(std::move(parts), ListKind::kView);
}

Value CallListMethod(const List& list, const Callable& method, const Arguments& arguments,
                     Meter* meter) {
  const std::string what = "list." + method.name;
  if (method.name == "copy") return *method.self;
  const ArgumentReader reader(what, arguments, {"value"}, 1);
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (!Equal(list.items[i], reader.Get(0), meter)) continue;
    if (method.name == "index") return Value::MakeInt(static_cast<int64_t>(i));
    ++count;
  }
  if (method.name == "index") Fail("list.index: the value is not in the list");
  return Value::MakeInt(count);
}

}  // namespace

std::optional<Value> Attribute(const Value& value, std::string_view name) {
  RequireDefined(value);
  if (name.starts_with("__")) return Forbidden(name);
  if (value.is_dict()) {
    if (Has(kDictMethods, name)) return MakeMethod(value, name);
    if (Has(kDictChanges, name)) return Forbidden(name);
    if (name == "fromkeys") FailUnsupported("dict.fromkeys");
  } else if (value.is_list()) {
    const ListKind kind = value.list().kind;
    if (kind == ListKind::kGenerator || kind == ListKind::kView) return std::nullopt;
    if (Has(kListMethods, name) && (kind == ListKind::kList || name != "copy")) {
      return MakeMethod(value, name);
    }
    if (kind == ListKind::kList && Has(kListChanges, name)) return Forbidden(name);
  } else if (value.is_text()) {
    if (!IsPythonStringMethod(name)) return std::nullopt;
    if (!IsStringMethod(name)) FailUnsupported("str." + std::string(name));
    return MakeMethod(value, name);
  } else if (value.is_loop()) {
    return LoopAttribute(value, name);
  } else if (value.is_namespace()) {
    for (const auto& [attribute, held] : value.object()->attributes) {
      if (attribute == name) return held;
    }
  }
  return std::nullopt;
}

Value CallMethod(const Callable& method, const Arguments& arguments, Meter* meter) {
  const Value& self = *method.self;
  if (self.is_dict()) return CallDictMethod(self.dict(), method, arguments, meter);
  if (self.is_list()) return CallListMethod(self.list(), method, arguments, meter);
  if (self.is_loop()) {
    const std::vector<Value>& values = arguments.positional;
    if (values.empty() || !arguments.named.empty()) Fail("loop.cycle needs values");
    return values[self.loop().index % values.size()];
  }
  if (self.is_safe()) FailUnsupported("a method of a text from the filter safe");
  return CallStringMethod(self.text(), method.name, arguments, meter);
}

Value Items(const Dict& dict, Meter* meter, ListKind kind) {
  std::vector<Value> items;
  meter->MakeList(3 * dict.size());
  for (const Dict::Entry& entry : dict.entries()) {
    items.push_back(Value::MakeList({entry.key, entry.value}, ListKind::kTuple));
  }
  return Value::MakeList(std::move(items), kind);
}

}  // namespace longstream::chat
