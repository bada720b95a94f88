// Uses the log hooks of gRPC and protobuf. The hooks take plain functions, so the sink is a global
// object.
#include "service/server/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace longstream {
namespace {

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
    line = limit.Pass(text, MonotonicTime::Now());
  }
  if (line.has_value()) TheSink()(library, *line);
}

void FromGrpc(gpr_log_func_args* line) { PassToSink("grpc", line->message); }

void FromProtobuf(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                  const std::string& text) {
  PassToSink("protobuf", text);
}

}  // namespace

std::optional<std::string> LineLimit::Pass(std::string_view line, MonotonicTime now) {
  if (now >= minute_end_) {
    minute_end_ = now + absl::Minutes(1);
    passed_ = 0;
  }
  if (passed_ == lines_per_minute_) {
    ++left_out_;
    return std::nullopt;
  }
  ++passed_;
  std::string text(line.substr(0, max_bytes_));
  if (text.size() < line.size()) text += "...";
  if (left_out_ > 0) absl::StrAppend(&text, " (", left_out_, " lines before it were left out)");
  left_out_ = 0;
  return text;
}

void RedirectLibraryLogs(LibraryLogSink sink) {
  TheSink() = std::move(sink);
  gpr_set_log_function(FromGrpc);
  google::protobuf::SetLogHandler(FromProtobuf);
}

}  // namespace longstream
