// The formats of strings in JSON Schema, as regular expressions.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_STRING_FORMATS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_STRING_FORMATS_H_

#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// The pattern of a format, which matches whole strings. Every string that it matches has the
// format; of formats without a limit of length, it matches the common strings. nullopt: the format
// is not known, so that it restricts nothing.
std::optional<std::string> PatternOfFormat(std::string_view format);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_STRING_FORMATS_H_
