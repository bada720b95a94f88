// Redirects the lines that gRPC and protobuf would write to standard error.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_LIBRARY_LOGS_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_LIBRARY_LOGS_H_

#include <functional>
#include <string_view>

namespace longstream {

// Receives a line of the library "grpc" or "protobuf". Called from any thread.
using LibraryLogSink = std::function<void(std::string_view library, std::string_view text)>;

// Passes the lines of both libraries to `sink` until the process ends: at most 60 a minute, each
// cut after 300 bytes. The environment variable GRPC_VERBOSITY selects gRPC's lines; if it is not
// set, gRPC only logs errors. Call this function once, before either library is used.
void RedirectLibraryLogs(LibraryLogSink sink);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_LIBRARY_LOGS_H_
