// Python's operators and conversions for values. They throw a TemplateError without line and
// column.
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

// Python's str(value), which {{ value }} prints.
Text ToText(const Value& value, Meter* meter);
// Python's repr() of a float.
std::string FloatText(double value);

bool Equal(const Value& left, const Value& right, Meter* meter);
// Returns a number below 0, 0 or above 0, or nothing if one of the values is NaN. `op` is for the
// error message.
std::optional<int> Compare(const Value& left, const Value& right, std::string_view op,
                           Meter* meter);
// Evaluates `left op right` for the operators "==", "!=", "<", "<=", ">", ">=", "in" and "not in".
bool Related(std::string_view op, const Value& left, const Value& right, Meter* meter);
// Evaluates `left op right` for the operators "+", "-", "*", "/", "//", "%" and "**".
Value Binary(std::string_view op, const Value& left, const Value& right, Meter* meter);
// Evaluates `op operand` for the operators "-" and "+".
Value Unary(std::string_view op, const Value& operand);

// Returns the attribute that a filter names by a path "a.b" or by a number. If a part of the path
// is undefined, `otherwise` takes its place, unless `otherwise` is None.
Value AttributePath(Value item, const Value& attribute, const Value& otherwise, Meter* meter);

// Returns the elements of an iteration over the value.
std::vector<Value> Elements(const Value& value, Meter* meter);
// Python's len(value).
int64_t Length(const Value& value);

// Returns value[key] by Jinja's rules: a missing item is undefined.
Value Item(const Value& value, const Value& key, Meter* meter);
Value Slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Meter* meter);

// Python's int(value) and float(value). They return nothing if Python's functions fail.
std::optional<int64_t> ToInt(const Value& value, int64_t base = 10);
std::optional<double> ToFloat(const Value& value);

// Escapes HTML, as Python's Markup does for a text that is added to it.
Text EscapeHtml(const Text& text, Meter* meter);

// Fails if the value is undefined. The error names the undefined variable, attribute or item.
void RequireDefined(const Value& value);
// Whether the value can be the key of a dict: it has a hash in Python, so it is not a list or a
// dict and holds none. Counts the time and the memory of a search for the key.
bool CanBeKey(const Value& value, Meter* meter);
// Fails if the value cannot be the key of a dict.
void RequireKey(const Value& value, Meter* meter);
// Returns the text of the value. If the value is not a text, fails with an error that names
// `where`.
const Text& RequireText(const Value& value, std::string_view where);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_OPERATORS_H_
