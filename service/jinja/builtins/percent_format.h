// Python's `text % values`, as templates use it.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_PERCENT_FORMAT_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_PERCENT_FORMAT_H_

#include "service/jinja/values/meter.h"
#include "service/jinja/values/text.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// `values` is a tuple of values, a dict for %(name)s, or one value.
Text PercentFormat(const Text& format, const Value& values, Meter* meter);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_PERCENT_FORMAT_H_
