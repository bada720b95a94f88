// The server's log: one JSON object a line on standard error.
#ifndef LONGSTREAM_SERVICE_METRICS_JSON_LOG_H_
#define LONGSTREAM_SERVICE_METRICS_JSON_LOG_H_

#include <initializer_list>
#include <string_view>
#include <utility>

namespace longstream {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

using LogField = std::pair<std::string_view, std::string_view>;

// Thread-safe; a line is written whole. Bytes that are not UTF-8 are replaced.
class JsonLog {
 public:
  // "debug", "info", "warning" or "error"; anything else means info.
  explicit JsonLog(std::string_view lowest_level);

  // {"time": RFC 3339, "level": ..., "event": ..., fields...}
  void Write(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields = {}) const;

 private:
  const LogLevel lowest_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_JSON_LOG_H_
