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

// str(value), what {{ value }} prints.
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

// What the attribute of a filter, "a.b" or a number, gives of an item; `otherwise`, if it is not
// None, for what is undefined on the way.
Value AttributePath(Value item, const Value& attribute, const Value& otherwise, Meter* meter);

// What iterating over the value gives.
std::vector<Value> Elements(const Value& value, Meter* meter);
// len(value).
int64_t Length(const Value& value);

// value[key] as Jinja looks it up: what is not there is undefined.
Value Item(const Value& value, const Value& key, Meter* meter);
Value Slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Meter* meter);

// int(value) and float(value); nothing where Python fails.
std::optional<int64_t> ToInt(const Value& value, int64_t base = 10);
std::optional<double> ToFloat(const Value& value);

// Fails where the value is undefined, with what is missing.
void RequireDefined(const Value& value);
// Fails where Python has no hash of the value: lists and dicts.
void RequireHashable(const Value& value);
// A text, or an error that names what `where` is.
const Text& RequireText(const Value& value, std::string_view where);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_OPERATORS_H_
