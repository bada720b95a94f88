#include "service/metrics/line_limit.h"

namespace longstream {

std::optional<std::string> LineLimit::Pass(std::string_view line, Clock::time_point now) {
  if (now >= minute_end_) {
    minute_end_ = now + std::chrono::minutes(1);
    passed_ = 0;
  }
  if (passed_ == lines_per_minute_) {
    ++left_out_;
    return std::nullopt;
  }
  ++passed_;
  std::string text(line.substr(0, max_bytes_));
  if (text.size() < line.size()) text += "...";
  if (left_out_ > 0) {
    text += " (" + std::to_string(left_out_) + " lines before it were left out)";
  }
  left_out_ = 0;
  return text;
}

}  // namespace longstream
