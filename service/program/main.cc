// longstream-server: blocks the signals that end it, reads the configuration and serves.
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/config/server_config.h"
#include "service/metrics/json_log.h"
#include "service/program/check_config.h"
#include "service/program/command_line.h"
#include "service/program/process_limits.h"
#include "service/program/serve.h"

namespace longstream {
namespace {

// The signals that end the server. They are blocked before any thread starts. All threads inherit
// the mask, so only sigwait receives them.
sigset_t BlockEndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // A closed terminal ends the server as SIGTERM does. If the server was started so that it ignores
  // SIGHUP, for example by nohup, it goes on.
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Returns what an exception at the start means. Call it in a catch block.
std::string ReasonOfException() {
  try {
    throw;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return error.what();
    return absl::StrCat("the system gives no further thread: ", error.what(),
                        "; raise the limit on processes or memory (ulimit -u, ulimit -v, pids.max)"
                        " or set fewer threads");
  } catch (const std::bad_alloc&) {
    return "the system gives no more memory; raise the limit on memory (ulimit -v)";
  } catch (const std::exception& error) {
    return error.what();
  }
}

int Run(int argc, char** argv, const sigset_t& signals) {
  CommandLine command_line;
  int exit_code = 2;
  const absl::Status status = ReadCommandLine(argc, argv, &command_line, &exit_code);
  if (absl::IsCancelled(status)) return exit_code;
  if (!status.ok()) {
    std::cerr << "longstream-server: " << status.message() << "\n";
    return command_line.check_config ? 1 : 2;
  }
  const ServerConfig& config = command_line.config;
  if (command_line.check_config) return CheckConfiguration(config, std::cout);
  const JsonLog log(config.log_level);
  try {
    return Serve(config, log, signals);
  } catch (const std::exception&) {
    return FailToStart(log, ReasonOfException());
  }
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::LimitArenas();
  longstream::FixHeapThresholds();
  const sigset_t signals = longstream::BlockEndingSignals();
  // A write to a closed connection or beyond the limit of a file's size must fail. It must not end
  // the server.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  try {
    return longstream::Run(argc, argv, signals);
  } catch (const std::exception& error) {
    std::cerr << "longstream-server: " << error.what() << "\n";
    return 1;
  }
}
