// The log of the server: one JSON object per line, on standard error.
#ifndef LONGSTREAM_SERVICE_METRICS_JSON_LOG_H_
#define LONGSTREAM_SERVICE_METRICS_JSON_LOG_H_

#include <initializer_list>
#include <string_view>
#include <utility>

namespace longstream {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

using LogField = std::pair<std::string_view, std::string_view>;

// Thread-safe: lines of several threads do not mix. Bytes that are not UTF-8 are replaced.
class JsonLog {
 public:
  // `lowest_level`: "debug", "info", "warning" or "error". Any other text means "info".
  explicit JsonLog(std::string_view lowest_level);

  // Writes the line {"time": ..., "level": ..., "event": ..., fields...}; the time is in the format
  // of RFC 3339.
  void Write(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields = {}) const;
  // Writes a line of the level "info" that no lowest level leaves out.
  void WriteAlways(std::string_view event, std::initializer_list<LogField> fields) const;

 private:
  const LogLevel lowest_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_JSON_LOG_H_
