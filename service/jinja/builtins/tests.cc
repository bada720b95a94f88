// Jinja's tests: `x is defined` and the like.
#include <algorithm>
#include <string>

#include "service/jinja/builtins/filters.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/values/unicode.h"

namespace longstream::chat {
namespace {

using Test = bool (*)(const Value& value, const Value& other, Meter* meter);

template <bool kDefined>
bool Defined(const Value& value, const Value& /*other*/, Meter* /*meter*/) {
  return value.is_undefined() != kDefined;
}

template <bool (Value::*kIs)() const>
bool Is(const Value& value, const Value& /*other*/, Meter* /*meter*/) {
  return (value.*kIs)();
}

template <bool kWanted>
bool IsBool(const Value& value, const Value& /*other*/, Meter* /*meter*/) {
  return value.is_bool() && value.Truth() == kWanted;
}

template <int kRest>
bool Parity(const Value& value, const Value& /*other*/, Meter* meter) {
  return Binary("%", value, Value::MakeInt(2), meter).number() == kRest;
}

bool DivisibleBy(const Value& value, const Value& other, Meter* meter) {
  const Value rest = Binary("%", value, other, meter);
  return rest.is_number() && rest.number() == 0;
}

bool Iterable(const Value& value, const Value& /*other*/, Meter* /*meter*/) {
  return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined() ||
         value.is_loop();
}

bool Sequence(const Value& value, const Value& /*other*/, Meter* /*meter*/) {
  if (value.is_list()) {
    return value.list().kind != ListKind::kGenerator && value.list().kind != ListKind::kView;
  }
  return value.is_text() || value.is_dict() || value.is_undefined();
}

bool CallableValue(const Value& value, const Value& /*other*/, Meter* /*meter*/) {
  return value.is_callable();
}

bool SameAs(const Value& value, const Value& other, Meter* /*meter*/) {
  return value.IsSame(other);
}

template <bool (*kFunction)(std::string_view)>
bool Case(const Value& value, const Value& /*other*/, Meter* meter) {
  const Text text = ToText(value, meter);
  meter->Read(text.size());
  return kFunction(text.bytes());
}

bool NamesFilter(const Value& value, const Value& /*other*/, Meter* meter) {
  RequireKey(value, meter);
  return value.is_text() && IsFilter(value.text().bytes());
}

bool NamesTest(const Value& value, const Value& /*other*/, Meter* meter) {
  RequireKey(value, meter);
  return value.is_text() && IsTest(value.text().bytes());
}

struct TestEntry {
  std::string_view name;
  Test test = nullptr;
  std::string_view relation = "";  // the operator to apply if `test` is nullptr
  bool has_argument = false;
};

const TestEntry* FindTest(std::string_view name) {
  static const TestEntry entries[] = {
      {"boolean", &Is<&Value::is_bool>},
      {"callable", &CallableValue},
      {"defined", &Defined<true>},
      {"divisibleby", &DivisibleBy, "", true},
      {"escaped", &Is<&Value::is_safe>},
      {"even", &Parity<0>},
      {"false", &IsBool<false>},
      {"filter", &NamesFilter},
      {"float", &Is<&Value::is_float>},
      {"integer", &Is<&Value::is_int>},
      {"iterable", &Iterable},
      {"lower", &Case<&IsLower>},
      {"mapping", &Is<&Value::is_dict>},
      {"none", &Is<&Value::is_none>},
      {"number", &Is<&Value::is_number>},
      {"odd", &Parity<1>},
      {"sameas", &SameAs, "", true},
      {"sequence", &Sequence},
      {"string", &Is<&Value::is_text>},
      {"test", &NamesTest},
      {"true", &IsBool<true>},
      {"undefined", &Defined<false>},
      {"upper", &Case<&IsUpper>},
      {"!=", nullptr, "!=", true},
      {"<", nullptr, "<", true},
      {"<=", nullptr, "<=", true},
      {"==", nullptr, "==", true},
      {">", nullptr, ">", true},
      {">=", nullptr, ">=", true},
      {"eq", nullptr, "==", true},
      {"equalto", nullptr, "==", true},
      {"ge", nullptr, ">=", true},
      {"greaterthan", nullptr, ">", true},
      {"gt", nullptr, ">", true},
      {"in", nullptr, "in", true},
      {"le", nullptr, "<=", true},
      {"lessthan", nullptr, "<", true},
      {"lt", nullptr, "<", true},
      {"ne", nullptr, "!=", true},
  };
  const auto* found = std::find_if(std::begin(entries), std::end(entries),
                                   [&](const TestEntry& entry) { return entry.name == name; });
  return found == std::end(entries) ? nullptr : found;
}

}  // namespace

bool IsTest(std::string_view name) { return FindTest(name) != nullptr; }

bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments,
               Meter* meter) {
  meter->Step();
  if (!IsTest(name)) FailUnsupported("the test '" + std::string(name) + "'");
  const TestEntry& entry = *FindTest(name);
  const std::string what = "the test '" + std::string(name) + "'";
  const ArgumentReader reader = entry.has_argument ? ArgumentReader(what, arguments, {"other"}, 1)
                                                   : ArgumentReader(what, arguments, {});
  if (entry.test != nullptr) return entry.test(input, reader.Get(0), meter);
  return Related(entry.relation, input, reader.Get(0), meter);
}

}  // namespace longstream::chat
