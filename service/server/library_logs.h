// What gRPC and protobuf would write to standard error by themselves.
#ifndef LONGSTREAM_SERVICE_SERVER_LIBRARY_LOGS_H_
#define LONGSTREAM_SERVICE_SERVER_LIBRARY_LOGS_H_

#include <functional>
#include <string_view>

namespace longstream {

// A line of `library`, "grpc" or "protobuf". Called from any thread.
using LibraryLogSink = std::function<void(std::string_view library, std::string_view text)>;

// Gives their lines to `sink`, from now on until the process ends. Of gRPC those that
// GRPC_VERBOSITY asks for, errors where it is not set. Once, before either library is used.
void RedirectLibraryLogs(LibraryLogSink sink);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_LIBRARY_LOGS_H_
