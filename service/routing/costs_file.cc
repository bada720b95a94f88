// Encodes, checks, reads and writes the file of costs.
#include "service/routing/costs_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace longstream {
namespace {

constexpr std::string_view kFirstLine = "longstream-arm-costs 1";
constexpr size_t kMostBytes = 16384;

// The shortest text that reads back as the same number.
std::string Text(double value) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

absl::Status Damaged(const char* what) {
  return absl::DataLossError(absl::StrCat("the file of costs is damaged: ", what));
}

// The values of a file, in their order.
using Line = std::pair<const char*, double*>;
std::array<Line, 4> TimesOf(ArmCosts& costs) {
  return {{{"prefill_base", &costs.prefill.base},
           {"prefill_slope", &costs.prefill.slope},
           {"decode_base", &costs.decode.base},
           {"decode_slope", &costs.decode.slope}}};
}
using Count = std::pair<const char*, uint64_t*>;
std::array<Count, 5> CountsOf(ArmCosts& costs) {
  return {{{"measured_depth", &costs.measured_depth},
           {"context_limit", &costs.context_limit},
           {"kv_bytes_per_token", &costs.kv_bytes_per_token},
           {"page_tokens", &costs.page_tokens},
           {"fixed_bytes", &costs.fixed_bytes}}};
}

// The value of the line `NAME VALUE`. Empty: it is another line.
std::string_view ValueOf(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() <= name.size() + 1) return "";
  return line[name.size()] == ' ' ? line.substr(name.size() + 1) : "";
}

absl::Status ReadValues(const std::vector<std::string>& lines, ArmCosts* costs) {
  size_t at = 2;
  for (const auto& [name, value] : TimesOf(*costs)) {
    const std::string_view text = ValueOf(lines[at++], name);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), *value);
    const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    if (!is_whole || !std::isfinite(*value) || *value < 0) return Damaged(name);
  }
  for (const auto& [name, value] : CountsOf(*costs)) {
    const std::string_view text = ValueOf(lines[at++], name);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return Damaged(name);
  }
  return absl::OkStatus();
}

absl::Status SystemError(const std::string& path, const char* what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

}  // namespace

uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

std::string EncodeCosts(std::string_view key, const ArmCosts& costs) {
  ArmCosts copy = costs;
  std::string text = absl::StrCat(absl::string_view(kFirstLine.data(), kFirstLine.size()), "\nkey ",
                                  absl::string_view(key.data(), key.size()), "\n");
  for (const auto& [name, value] : TimesOf(copy)) {
    absl::StrAppend(&text, name, " ", Text(*value), "\n");
  }
  for (const auto& [name, value] : CountsOf(copy)) {
    absl::StrAppend(&text, name, " ", *value, "\n");
  }
  return absl::StrCat(text, absl::StrFormat("checksum %016x\n", Fnv1a(text)));
}

absl::StatusOr<ArmCosts> DecodeCosts(std::string_view key, std::string_view text) {
  const size_t last = text.rfind("checksum ");
  if (last == std::string_view::npos) return Damaged("it has no checksum");
  const std::string_view body = text.substr(0, last);
  if (text.substr(last) != absl::StrFormat("checksum %016x\n", Fnv1a(body))) {
    return Damaged("the checksum differs");
  }
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(body.data(), body.size()), '\n');
  constexpr size_t kLines = 12;  // two, nine values, and the empty end
  if (lines.size() != kLines || lines[0] != kFirstLine || !lines.back().empty()) {
    return Damaged("it has another form");
  }
  const std::string_view found = ValueOf(lines[1], "key");
  if (found != key) {
    return absl::FailedPreconditionError(
        absl::StrCat("the costs are of another model or machine: expected ",
                     absl::string_view(key.data(), key.size()), ", found ",
                     absl::string_view(found.data(), found.size())));
  }
  ArmCosts costs;
  if (absl::Status status = ReadValues(lines, &costs); !status.ok()) return status;
  return costs;
}

absl::StatusOr<ArmCosts> ReadCostsFile(const std::string& path, std::string_view key) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return SystemError(path, "cannot be read", errno == 0 ? ENOENT : errno);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return DecodeCosts(key, text);
}

absl::Status WriteCostsFile(const std::string& path, std::string_view key, const ArmCosts& costs) {
  const std::string text = EncodeCosts(key, costs);
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  errno = 0;
  std::FILE* const file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return SystemError(temporary, "cannot be written", errno);
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fflush(file) == 0 && fsync(fileno(file)) == 0 && good;
  const int error = errno;
  good = std::fclose(file) == 0 && good;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int last_error = good ? errno : error;
  std::remove(temporary.c_str());
  return SystemError(path, "cannot be written", last_error == 0 ? EIO : last_error);
}

}  // namespace longstream
