// Uses the log hooks of gRPC and protobuf. The hooks take plain functions, so the sink is a global
// object.
#include "service/server/transport/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "service/metrics/line_limit.h"

namespace longstream {
namespace {

// gRPC logs each header that it cannot read, with its value.
constexpr int kLinesPerMinute = 60;
constexpr size_t kMaxLineBytes = 300;

LibraryLogSink& TheSink() {
  // Never destroyed, because a thread of gRPC may log until the process ends.
  static LibraryLogSink& sink = *new LibraryLogSink();
  return sink;
}

void PassToSink(std::string_view library, std::string_view text) {
  static absl::Mutex& mutex = *new absl::Mutex();  // like the sink
  static LineLimit& limit = *new LineLimit(kLinesPerMinute, kMaxLineBytes);
  std::optional<std::string> line;
  {
    absl::MutexLock lock(&mutex);
    line = limit.Pass(text, LineLimit::Clock::now());
  }
  if (line.has_value()) TheSink()(library, *line);
}

void FromGrpc(gpr_log_func_args* line) { PassToSink("grpc", line->message); }

void FromProtobuf(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                  const std::string& text) {
  PassToSink("protobuf", text);
}

}  // namespace

void RedirectLibraryLogs(LibraryLogSink sink) {
  TheSink() = std::move(sink);
  gpr_set_log_function(FromGrpc);
  google::protobuf::SetLogHandler(FromProtobuf);
}

}  // namespace longstream
