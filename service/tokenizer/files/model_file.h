// Files of a model directory, whole.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_MODEL_FILE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_MODEL_FILE_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace longstream {

// Whether a directory has something of this name. A link that leads nowhere counts: the file is
// meant to be there.
bool HasModelFile(const std::filesystem::path& path);

// The bytes of a file; nullopt if there is none. INVALID_ARGUMENT, with the path: it is no regular
// file, a link that leads nowhere, a pointer of Git LFS, or cannot be read.
absl::StatusOr<std::optional<std::string>> FindModelFile(const std::filesystem::path& path);

// The same for a file that must be there.
absl::StatusOr<std::string> ReadModelFile(const std::filesystem::path& path);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_MODEL_FILE_H_
