// The form of the names that operators give to models and aliases.
#ifndef LONGSTREAM_SERVICE_CONFIG_NAMES_H_
#define LONGSTREAM_SERVICE_CONFIG_NAMES_H_

#include <string_view>

#include "absl/status/status.h"

namespace longstream {

// INVALID_ARGUMENT: `name` is not 1 ... 128 letters, digits and "._-" of ASCII with a letter or a
// digit at its beginning. `field`: of the request or of the configuration. So a name is never a
// path.
absl::Status CheckName(std::string_view field, std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_NAMES_H_
