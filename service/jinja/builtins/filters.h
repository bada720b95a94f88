// Jinja's filters and tests.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_FILTERS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_FILTERS_H_

#include <initializer_list>
#include <string_view>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// The input and the arguments of one call of a filter.
struct FilterCall {
  const Value& input;
  const ArgumentReader& arguments;
  Meter* meter;
};

struct FilterEntry {
  std::string_view name;
  Value (*filter)(const FilterCall& call);
  std::initializer_list<std::string_view> parameters;
  size_t required;
};

// FindTextFilter finds filters of texts and numbers, FindListFilter filters of lists and dicts.
// They return nullptr if there is no filter of that name.
const FilterEntry* FindTextFilter(std::string_view name);
const FilterEntry* FindListFilter(std::string_view name);

// Apply a filter or a test. Throw TemplateError, also if there is none of that name.
Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments,
                  Meter* meter);
bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments, Meter* meter);

// Whether Jinja has a filter or a test of that name. ApplyFilter does not support all of Jinja's
// filters.
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

// The filter tojson: Python's json.dumps(value, ...).
Value ToJson(const FilterCall& call);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_FILTERS_H_
