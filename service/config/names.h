// Names of models and aliases: their form, and how errors repeat them.
#ifndef LONGSTREAM_SERVICE_CONFIG_NAMES_H_
#define LONGSTREAM_SERVICE_CONFIG_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace longstream {

// INVALID_ARGUMENT: `name` is not 1 ... 128 letters, digits and "._-" of ASCII with a letter or a
// digit at its beginning. `field`: of the request or of the configuration. So a name is never a
// path.
absl::Status CheckName(std::string_view field, std::string_view name);

// An error repeats at most this many bytes of a name, because an unknown one may be as long as a
// request.
inline constexpr size_t kMaxEchoBytes = 64;

// Returns the beginning of the name, in quotation marks, with all bytes escaped that are not
// printable ASCII.
std::string EscapedName(std::string_view name, size_t most_bytes = kMaxEchoBytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_NAMES_H_
