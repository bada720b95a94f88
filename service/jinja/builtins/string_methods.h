// The methods of Python's str.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_STRING_METHODS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_STRING_METHODS_H_

#include <string_view>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// Whether Python's str has the method, and whether this implementation has it.
bool IsPythonStringMethod(std::string_view name);
bool IsStringMethod(std::string_view name);

// REQUIRES: IsStringMethod(name).
Value CallStringMethod(const Text& text, std::string_view name, const Arguments& arguments,
                       Meter* meter);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_STRING_METHODS_H_
