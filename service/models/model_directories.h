// The directories and GGUF files of models that an operator may load by name.
#ifndef LONGSTREAM_SERVICE_MODELS_MODEL_DIRECTORIES_H_
#define LONGSTREAM_SERVICE_MODELS_MODEL_DIRECTORIES_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longstream {

// Returns the path of `name`, a directory or a GGUF file (*.gguf), in the first of `roots` that has
// it. It must be no symbolic link itself; the files of a directory may be. INVALID_ARGUMENT: as for
// CheckName. NOT_FOUND: no root has the name. FAILED_PRECONDITION: it is a symbolic link, or
// another file.
absl::StatusOr<std::string> FindModelDirectory(std::span<const std::string> roots,
                                               std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_MODEL_DIRECTORIES_H_
