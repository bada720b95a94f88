// Parses JSON documents that others wrote, with limits. Only sources of this folder may include
// this header, because the JSON library is slow to compile.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_JSON_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "backends/api/backend.h"

namespace longstream {

// The greatest depth of nested objects and arrays. No program writes deeper configs.
inline constexpr int kMaxJsonDepth = 32;

// Parses `text`. Throws BackendError(code) with `file` and the place of the fault in three cases:
// the text is not one JSON object, its nesting is deeper than kMaxJsonDepth, or an object has a key
// twice.
nlohmann::json ParseJsonObject(std::string_view text, const std::string& file, ls_code code);

// Returns a file's bytes. BackendError: LS_NOT_FOUND if the file cannot be read,
// LS_INVALID_ARGUMENT if it is larger than 64 MiB.
std::string ReadTextFile(const std::string& path);

// The reason why a file cannot be opened: `error` in words, or that the path is a link to a missing
// file (as in the hub's cache without its blobs).
std::string WhyNotOpened(const std::string& path, const std::error_code& error);

// The parser's message, without the library's prefix.
std::string ParseProblem(const nlohmann::json::exception& error);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_JSON_H_
