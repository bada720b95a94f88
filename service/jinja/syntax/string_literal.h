// Python's escapes in a string of a template.
#ifndef LONGSTREAM_SERVICE_JINJA_SYNTAX_STRING_LITERAL_H_
#define LONGSTREAM_SERVICE_JINJA_SYNTAX_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "service/jinja/values/error.h"

namespace longstream::chat {

// The value of a string. `body`: its source between the quotes; `place`: its place. An escape that
// Python does not know stays as it is.
std::string UnescapeString(std::string_view body, Place place);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_STRING_LITERAL_H_
