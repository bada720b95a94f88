// The options of a model that a call may give.
#ifndef LONGSTREAM_SERVICE_MODELS_CALL_OPTIONS_H_
#define LONGSTREAM_SERVICE_MODELS_CALL_OPTIONS_H_

#include <string>

#include "absl/status/status.h"

namespace longstream {

// Checks a JSON object of options (Options::options_json) from a call. INVALID_ARGUMENT: it is not
// a JSON object, or it has an option whose value is a path (backends/api/path_options.h), which
// only the configuration may have. The backend checks the rest.
absl::Status CheckCallOptions(const std::string& options_json);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_CALL_OPTIONS_H_
