// Runs the server from its start to its end.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVE_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVE_H_

#include <csignal>
#include <string_view>

#include "service/config/server_config.h"
#include "service/metrics/json_log.h"

namespace longstream {

// The exit code of a server whose store could not end its last writes, because the disk hangs.
inline constexpr int kStoreHangs = 3;

// Serves until one of `signals` arrives, which all threads must block. Then shuts everything down
// in order. Returns the exit code of the program: 0, or 1 if the server could not start; the log
// says why. Ends the process with kStoreHangs if the disk of the store hangs.
int Serve(const ServerConfig& config, const JsonLog& log, const sigset_t& signals);

// Logs why the server could not start. Returns the exit code.
int FailToStart(const JsonLog& log, std::string_view why);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVE_H_
