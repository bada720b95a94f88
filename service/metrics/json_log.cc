// Formats and writes log lines.
#include "service/metrics/json_log.h"

#include <unistd.h>

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace longstream {
namespace {

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

LogLevel LevelNamed(std::string_view name) {
  for (int level = 0; level < 4; ++level) {
    if (name == kNames[level]) return static_cast<LogLevel>(level);
  }
  return LogLevel::kInfo;
}

void WriteLine(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  line["level"] = kNames[static_cast<int>(level)];
  line["event"] = event;
  for (const LogField& field : fields) line[std::string(field.first)] = field.second;
  std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  // Write the line with one call, so that lines of several threads do not mix. A failure cannot be
  // reported anywhere.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

JsonLog::JsonLog(std::string_view lowest_level) : lowest_(LevelNamed(lowest_level)) {}

void JsonLog::Write(LogLevel level, std::string_view event,
                    std::initializer_list<LogField> fields) const {
  if (level >= lowest_) WriteLine(level, event, fields);
}

void JsonLog::WriteAlways(std::string_view event, std::initializer_list<LogField> fields) const {
  WriteLine(LogLevel::kInfo, event, fields);
}

}  // namespace longstream
