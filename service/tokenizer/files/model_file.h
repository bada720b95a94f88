// Reads whole files of a model directory.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_MODEL_FILE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_MODEL_FILE_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace longstream {

// The largest file that the functions read. The largest tokenizer.json of a known model has 35 MB.
// Files are read before the memory of the model is admitted. The backends have the same limit.
inline constexpr size_t kMaxModelFileBytes = size_t{64} << 20;

// Whether the directory has an entry of this name. A broken link counts too, because the file is
// meant to exist.
bool HasModelFile(const std::filesystem::path& path);

// Returns the bytes of a file, or nullopt if it does not exist. INVALID_ARGUMENT: the file is not a
// regular file, is a broken link or a pointer of Git LFS, is larger than kMaxModelFileBytes, or
// cannot be read; the message names the path.
absl::StatusOr<std::optional<std::string>> FindModelFile(const std::filesystem::path& path);

// Does the same as FindModelFile for a file that must exist.
absl::StatusOr<std::string> ReadModelFile(const std::filesystem::path& path);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_MODEL_FILE_H_
