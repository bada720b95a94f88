// Redirects the lines that gRPC and protobuf would write to standard error.
#ifndef LONGSTREAM_SERVICE_SERVER_LIBRARY_LOGS_H_
#define LONGSTREAM_SERVICE_SERVER_LIBRARY_LOGS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "service/clock/monotonic_time.h"

namespace longstream {

// Limits the lines that a client can cause: gRPC logs each header that it cannot read, with its
// whole value. Passes so many lines a minute, each up to so many bytes. Not thread-safe.
class LineLimit {
 public:
  LineLimit(int lines_per_minute, size_t max_bytes)
      : lines_per_minute_(lines_per_minute), max_bytes_(max_bytes) {}

  // Returns the line to log, or nothing. The first line after a pause also says how many lines
  // were left out.
  std::optional<std::string> Pass(std::string_view line, MonotonicTime now);

 private:
  const int lines_per_minute_;
  const size_t max_bytes_;
  MonotonicTime minute_end_ = MonotonicTime::InfinitePast();
  int passed_ = 0;    // in this minute
  int left_out_ = 0;  // since the last line that passed
};

// Receives a line of the library "grpc" or "protobuf". Called from any thread.
using LibraryLogSink = std::function<void(std::string_view library, std::string_view text)>;

// Passes the lines of both libraries to `sink` until the process ends: at most 60 a minute, each
// cut after 300 bytes. The environment variable GRPC_VERBOSITY selects gRPC's lines; if it is not
// set, gRPC only logs errors. Call this function once, before either library is used.
void RedirectLibraryLogs(LibraryLogSink sink);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_LIBRARY_LOGS_H_
