// Limits the lines that clients can cause in the log.
#ifndef LONGSTREAM_SERVICE_METRICS_LINE_LIMIT_H_
#define LONGSTREAM_SERVICE_METRICS_LINE_LIMIT_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// Passes so many lines a minute, each up to so many bytes. Not thread-safe.
class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;

  LineLimit(int lines_per_minute, size_t max_bytes)
      : lines_per_minute_(lines_per_minute), max_bytes_(max_bytes) {}

  // Returns the line to log, or nothing. The first line after a pause also says how many lines
  // were left out.
  std::optional<std::string> Pass(std::string_view line, Clock::time_point now);

 private:
  const int lines_per_minute_;
  const size_t max_bytes_;
  Clock::time_point minute_end_ = Clock::time_point::min();
  int passed_ = 0;    // in this minute
  int left_out_ = 0;  // since the last line that passed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_LINE_LIMIT_H_
