// The lookup of all filters, and the filters that apply another filter or test to each element:
// map, select, reject, selectattr and rejectattr.
#include "service/jinja/builtins/filters.h"

#include <algorithm>
#include <array>
#include <utility>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/builtins/percent_format.h"
#include "service/jinja/values/names.h"

namespace longstream::chat {
namespace {

constexpr std::array<std::string_view, 5> kApplying = {"map", "select", "reject", "selectattr",
                                                       "rejectattr"};
// Filters of Jinja that are not supported. A template that names one can be read, as in Jinja, and
// fails when it applies the filter.
constexpr std::array<std::string_view, 8> kUnsupportedFilters = {
    "filesizeformat", "groupby", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"};

// Returns the arguments without the first `first` positional ones.
Arguments Rest(const Arguments& arguments, size_t first) {
  Arguments rest;
  for (size_t i = first; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  rest.named = arguments.named;
  return rest;
}

std::string NameAt(const Arguments& arguments, size_t index, std::string_view filter) {
  return RequireText(arguments.positional[index], "the filter '" + std::string(filter) + "'")
      .bytes();
}

Value Map(const Value& input, const Arguments& arguments, Meter* meter) {
  std::vector<Value> results;
  if (!arguments.positional.empty()) {
    const std::string name = NameAt(arguments, 0, "map");
    const Arguments rest = Rest(arguments, 1);
    for (const Value& item : Elements(input, meter)) {
      results.push_back(ApplyFilter(name, item, rest, meter));
    }
    return Value::MakeList(std::move(results), ListKind::kGenerator);
  }
  const ArgumentReader reader("the filter 'map'", arguments, {"attribute", "default"}, 1);
  for (const Value& item : Elements(input, meter)) {
    results.push_back(AttributePath(item, reader.Get(0), reader.Get(1), meter));
  }
  return Value::MakeList(std::move(results), ListKind::kGenerator);
}

Value Select(std::string_view filter, const Value& input, const Arguments& arguments,
             Meter* meter) {
  const bool by_attribute = filter.ends_with("attr");
  const bool keeps = filter.starts_with("select");
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) {
    Fail("the filter '" + std::string(filter) + "' needs the name of an attribute");
  }
  const bool has_test = arguments.positional.size() > test_at;
  const std::string test = has_test ? NameAt(arguments, test_at, filter) : "";
  const Arguments rest = Rest(arguments, test_at + 1);
  std::vector<Value> kept;
  for (const Value& item : Elements(input, meter)) {
    const Value looked_at =
        by_attribute ? AttributePath(item, arguments.positional[0], Value(), meter) : item;
    const bool passes = has_test ? ApplyTest(test, looked_at, rest, meter) : looked_at.Truth();
    if (passes == keeps) kept.push_back(item);
  }
  return Value::MakeList(std::move(kept), ListKind::kGenerator);
}

// The filter format: `input % arguments`.
Value FormatFilter(const Value& input, const Arguments& arguments, Meter* meter) {
  const Text format = ToText(input, meter);
  if (arguments.named.empty()) {
    const Value values = Value::MakeList(arguments.positional, ListKind::kTuple);
    return Value::MakeText(PercentFormat(format, values, meter));
  }
  if (!arguments.positional.empty()) {
    Fail("the filter 'format' takes positional or named arguments, not both");
  }
  Dict values;
  for (const auto& [name, value] : arguments.named) values.Set(name, value);
  return Value::MakeText(PercentFormat(format, Value::MakeDict(std::move(values)), meter));
}

const FilterEntry* FindFilter(std::string_view name) {
  const FilterEntry* entry = FindTextFilter(name);
  return entry != nullptr ? entry : FindListFilter(name);
}

}  // namespace

bool IsFilter(std::string_view name) {
  return Has(kApplying, name) || Has(kUnsupportedFilters, name) || name == "format" ||
         FindFilter(name) != nullptr;
}

Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments,
                  Meter* meter) {
  meter->Step();
  if (!IsFilter(name) || Has(kUnsupportedFilters, name)) {
    FailUnsupported("the filter '" + std::string(name) + "'");
  }
  if (name == "format") return FormatFilter(input, arguments, meter);
  const FilterEntry* entry = FindFilter(name);
  if (entry == nullptr) {
    // In Jinja these filters return no elements for a false input, even if it is not iterable.
    const Value& iterated = input.Truth() ? input : Value::MakeList({});
    if (name == "map") return Map(iterated, arguments, meter);
    return Select(name, iterated, arguments, meter);
  }
  const ArgumentReader reader("the filter '" + std::string(name) + "'", arguments,
                              entry->parameters, entry->required);
  return entry->filter({input, reader, meter});
}

}  // namespace longstream::chat
