// JSON documents from outside, parsed with limits. Private to this folder's sources: the library
// behind it is slow to compile.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_JSON_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "backends/api/backend.h"

namespace longstream {

// Objects and arrays within one another. No program writes deeper configs.
inline constexpr int kMaxJsonDepth = 32;

// Parses `text`, which must be one JSON object. Throws BackendError(code), naming `file` and the
// place, for anything else, for nesting deeper than kMaxJsonDepth and for a key that an object has
// twice.
nlohmann::json ParseJsonObject(std::string_view text, const std::string& file, ls_code code);

// A file's bytes. BackendError: LS_NOT_FOUND if it cannot be read, LS_INVALID_ARGUMENT if it is
// larger than 64 MiB.
std::string ReadTextFile(const std::string& path);

// Why a file cannot be opened: `error` in words, or that its name is a link to nothing (as in the
// hub's cache without its blobs).
std::string WhyNotOpened(const std::string& path, const std::error_code& error);

// The parser's message, without the library's prefix.
std::string ParseProblem(const nlohmann::json::exception& error);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_JSON_H_
