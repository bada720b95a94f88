// Methods of Python's str, list and dict.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_METHODS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_METHODS_H_

#include <optional>
#include <string_view>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// value.name, if it is a method, or an attribute of a namespace or of `loop`; nothing if Python has
// none. UNIMPLEMENTED for methods that Python has and we do not. Names that the sandbox of chat
// templates forbids, such as methods that change a value, are undefined.
std::optional<Value> Attribute(const Value& value, std::string_view name);

// REQUIRES: `method` is one (Callable::Kind::kMethod).
Value CallMethod(const Callable& method, const Arguments& arguments, Meter* meter);

// s.replace(old, replacement, count); below 0: all of them.
Text Replace(const Text& text, std::string_view old, const Text& replacement, int64_t count,
             Meter* meter);
// s.strip(chars); white space where it is None or not given.
Text Strip(const Text& text, const Value& chars, bool at_begin, bool at_end, Meter* meter);
// s.splitlines().
std::vector<Text> SplitLines(const Text& text, Meter* meter);
// d.items().
Value Items(const Dict& dict, Meter* meter, ListKind kind);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_METHODS_H_
