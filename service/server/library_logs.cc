// Uses the log hooks of gRPC and protobuf. The hooks take plain functions, so the sink is a global
// object.
#include "service/server/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>
#include <utility>

namespace longstream {
namespace {

LibraryLogSink& TheSink() {
  // Never destroyed, because a thread of gRPC may log until the process ends.
  static LibraryLogSink& sink = *new LibraryLogSink();
  return sink;
}

void FromGrpc(gpr_log_func_args* line) { TheSink()("grpc", line->message); }

void FromProtobuf(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                  const std::string& text) {
  TheSink()("protobuf", text);
}

}  // namespace

void RedirectLibraryLogs(LibraryLogSink sink) {
  TheSink() = std::move(sink);
  gpr_set_log_function(FromGrpc);
  google::protobuf::SetLogHandler(FromProtobuf);
}

}  // namespace longstream
