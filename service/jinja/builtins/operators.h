// Python's operators and conversions on values. They throw TemplateError without a place.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_OPERATORS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_OPERATORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// str(value), as {{ value }} prints it.
Text ToText(const Value& value, Meter* meter);
// repr() of a float.
std::string FloatText(double value);

bool Equal(const Value& left, const Value& right, Meter* meter);
// Below 0, 0 or above 0; `op` is for the error message. NaN is not ordered: nothing.
std::optional<int> Compare(const Value& left, const Value& right, std::string_view op,
                           Meter* meter);
// left `op` right, for "==", "!=", "<", "<=", ">", ">=", "in", "not in".
bool Related(std::string_view op, const Value& left, const Value& right, Meter* meter);
// left `op` right, for "+", "-", "*", "/", "//", "%", "**".
Value Binary(std::string_view op, const Value& left, const Value& right, Meter* meter);
// "-" and "+".
Value Unary(std::string_view op, const Value& operand);

// An item's attribute as filters name it: "a.b" or a number. If it is undefined on the way,
// `otherwise` takes its place, unless that is None.
Value AttributePath(Value item, const Value& attribute, const Value& otherwise, Meter* meter);

// The elements of an iteration over the value.
std::vector<Value> Elements(const Value& value, Meter* meter);
// len(value).
int64_t Length(const Value& value);

// value[key] as Jinja looks it up: a missing one is undefined.
Value Item(const Value& value, const Value& key, Meter* meter);
Value Slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Meter* meter);

// int(value) and float(value); nothing where Python fails.
std::optional<int64_t> ToInt(const Value& value, int64_t base = 10);
std::optional<double> ToFloat(const Value& value);

// Fails if the value is undefined; the error names the missing thing.
void RequireDefined(const Value& value);
// Fails where Python has no hash of the value: lists and dicts.
void RequireHashable(const Value& value);
// The value's text; an error that names `where` if it is no text.
const Text& RequireText(const Value& value, std::string_view where);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_OPERATORS_H_
