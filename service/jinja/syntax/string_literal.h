// Python's escapes in the strings of a template.
#ifndef LONGSTREAM_SERVICE_JINJA_SYNTAX_STRING_LITERAL_H_
#define LONGSTREAM_SERVICE_JINJA_SYNTAX_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "service/jinja/values/error.h"

namespace longstream::chat {

// Returns the value of a string. `body`: the source between the quotes. `place`: the place of the
// string, for error messages. An escape that Python does not know stays unchanged.
std::string UnescapeString(std::string_view body, Place place);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_STRING_LITERAL_H_
