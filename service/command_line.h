// The command line of the server.
#ifndef LONGSTREAM_SERVICE_COMMAND_LINE_H_
#define LONGSTREAM_SERVICE_COMMAND_LINE_H_

#include "absl/status/status.h"
#include "service/config/server_config.h"

namespace longstream {

// Reads the configuration. Flags override the file, and the file overrides the defaults. CANCELLED:
// the program must exit with *exit_code, for example after --help.
absl::Status ReadCommandLine(int argc, char** argv, ServerConfig* config, int* exit_code);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_COMMAND_LINE_H_
