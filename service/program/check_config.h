// `longstream-server --check-config`.
#ifndef LONGSTREAM_SERVICE_PROGRAM_CHECK_CONFIG_H_
#define LONGSTREAM_SERVICE_PROGRAM_CHECK_CONFIG_H_

#include <ostream>

#include "service/config/server_config.h"

namespace longstream {

// Checks the addresses, the plugins and the models of a configuration as far as it can without
// loading weights, and prints a line for each of them. Opens the ports for a moment, so a server
// that uses them already is an error. Returns the exit code of the program: 0, or 1 if a server
// with this configuration would not start or would not serve one of its models, or if the processor
// lacks the instruction set that LONGSTREAM_ISA names.
int CheckConfiguration(const ServerConfig& config, std::ostream& out);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_CHECK_CONFIG_H_
