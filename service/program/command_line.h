// The command line of the server.
#ifndef LONGSTREAM_SERVICE_PROGRAM_COMMAND_LINE_H_
#define LONGSTREAM_SERVICE_PROGRAM_COMMAND_LINE_H_

#include "absl/status/status.h"
#include "service/config/server_config.h"

namespace longstream {

struct CommandLine {
  ServerConfig config;
  bool check_config = false;  // only check the configuration and the files that it names
};

// Reads the command line and the configuration. Flags override the file, and the file overrides the
// defaults. CANCELLED: the program must exit with *exit_code, for example after --help. After any
// other error, command_line->check_config still says whether the flag was given.
absl::Status ReadCommandLine(int argc, char** argv, CommandLine* command_line, int* exit_code);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_COMMAND_LINE_H_
