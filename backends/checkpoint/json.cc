// Parses JSON documents that others wrote, with limits.
#include "backends/checkpoint/json.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

using Json = nlohmann::json;

// The length of a problem in a sentence: enough for the place and for the text that the parser read
// last.
constexpr size_t kMaxProblem = 200;
constexpr uintmax_t kMaxTextBytes = uintmax_t{64} << 20;

}  // namespace

std::string ParseProblem(const Json::exception& error) {
  const std::string_view what = error.what();
  const size_t prefix = what.find("] ");
  return Shortened(prefix == std::string_view::npos ? what : what.substr(prefix + 2), kMaxProblem);
}

Json ParseJsonObject(std::string_view text, const std::string& file, ls_code code) {
  std::vector<std::set<std::string>> keys;  // keys of each open object
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxJsonDepth) {
      throw BackendError(
          code, file + ": JSON nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !keys.back().insert(value.get<std::string>()).second) {
      throw BackendError(code, file + ": the key " + Quoted(value.get<std::string>()) +
                                   " is there twice in one object");
    }
    return true;
  };
  Json document;
  try {
    document = Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    throw BackendError(code, file + ": no valid JSON: " + ParseProblem(error));
  }
  if (!document.is_object()) {
    throw BackendError(code, file + ": expected a JSON object, found " + document.type_name());
  }
  return document;
}

std::string WhyNotOpened(const std::string& path, const std::error_code& error) {
  std::error_code ignored;
  if (error != std::errc::no_such_file_or_directory ||
      !std::filesystem::is_symlink(path, ignored)) {
    return error.message();
  }
  return "is a link to " + std::filesystem::read_symlink(path, ignored).string() +
         ", which is not there: the directory is incomplete";
}

std::string ReadTextFile(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    throw BackendError(LS_NOT_FOUND, path + ": cannot be read: " + WhyNotOpened(path, error));
  }
  if (size > kMaxTextBytes) {
    throw BackendError(LS_INVALID_ARGUMENT, path + ": " + std::to_string(size) +
                                                " bytes, expected at most " +
                                                std::to_string(kMaxTextBytes));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<size_t>(size), '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) {
    throw BackendError(LS_NOT_FOUND, path + ": cannot be read");
  }
  return text;
}

}  // namespace longstream
