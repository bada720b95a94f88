// Methods of Python's str that cut a text into three parts or make it wider.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_STRING_PARTS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_STRING_PARTS_H_

#include <cstdint>

#include "service/jinja/builtins/arguments.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/text.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// str.partition(separator), or str.rpartition if `from_end`.
Value Partition(const Text& text, const ArgumentReader& arguments, bool from_end, Meter* meter);

enum class Alignment { kLeft, kRight, kCenter };
// str.ljust, str.rjust and str.center. Fails if `fill` is not one character.
Text Aligned(const Text& text, Alignment alignment, int64_t width, const Text& fill, Meter* meter);

// str.zfill(width): zeros after the sign.
Text ZeroFilled(const Text& text, int64_t width, Meter* meter);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_STRING_PARTS_H_
