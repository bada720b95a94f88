// Jinja's filters and tests.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_FILTERS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_FILTERS_H_

#include <initializer_list>
#include <string_view>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// A filter's input, and what it was called with.
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

// Filters of texts and numbers, and of lists and dicts. nullptr: there is none.
const FilterEntry* FindTextFilter(std::string_view name);
const FilterEntry* FindListFilter(std::string_view name);

// Throws TemplateError. REQUIRES: IsFilter(name), IsTest(name).
Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments,
                  Meter* meter);
bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments, Meter* meter);

bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

// json.dumps(value, ...) as the filter tojson has it.
Value ToJson(const FilterCall& call);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_FILTERS_H_
