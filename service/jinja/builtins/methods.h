// The methods of Python's str, list and dict.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_METHODS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_METHODS_H_

#include <optional>
#include <string_view>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// Returns `value.name` if it is a method, or an attribute of a namespace or of `loop`. Returns
// nothing if Python has no such method. UNIMPLEMENTED: Python has the method, but we do not. Names
// that the sandbox of chat templates forbids, such as methods that change a value, are undefined.
std::optional<Value> Attribute(const Value& value, std::string_view name);

// REQUIRES: `method` is of the kind Callable::Kind::kMethod.
Value CallMethod(const Callable& method, const Arguments& arguments, Meter* meter);

// Python's s.replace(old, replacement, count). A negative count replaces all occurrences.
Text Replace(const Text& text, std::string_view old, const Text& replacement, int64_t count,
             Meter* meter);
// Python's s.strip(chars), lstrip or rstrip. If `chars` is None, strips white space.
Text Strip(const Text& text, const Value& chars, bool at_begin, bool at_end, Meter* meter);
// Python's s.splitlines(keeps_ends).
std::vector<Text> SplitLines(const Text& text, Meter* meter, bool keeps_ends = false);
// Python's d.items(), as a list of the given kind.
Value Items(const Dict& dict, Meter* meter, ListKind kind);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_METHODS_H_
