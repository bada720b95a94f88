// A server with a store that is started again whenever it ends, and whose disk can fail.
#ifndef LONGSTREAM_TESTS_FAULTS_KEPT_SERVER_H_
#define LONGSTREAM_TESTS_FAULTS_KEPT_SERVER_H_

#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/processes/dropping_proxy.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {

// The number in an environment variable, or `otherwise`.
int NumberFromEnvironment(const char* name, int otherwise);

// Clients connect to address(), which stays the same. Thread-safe.
class KeptServer {
 public:
  // `arguments`: of the server, without --store and addresses. `store_url`: in place of a directory
  // of the test's own.
  explicit KeptServer(std::vector<std::string> arguments, const std::string& store_url = "");
  // Kills the server.
  ~KeptServer();
  KeptServer(const KeptServer&) = delete;
  KeptServer& operator=(const KeptServer&) = delete;

  std::string address() const { return proxy_.address(); }
  const std::string& store() const { return store_; }
  // How many servers have been started.
  int starts() const { return starts_; }

  // From now on the disk of the server fails as store_faults.cc says. A server that is started
  // again has no fault.
  void SetFault(const std::string& fault);
  // The number of calls that store_faults.cc has counted.
  long CountedCalls() const;

  // Kills the server with SIGKILL, without waiting until it serves again.
  void Kill();
  // Kills the server; the next one has a fault from its first call on.
  void RestartWithFault(const std::string& fault);
  // The port of the present server's metrics.
  int metrics_port();
  // Ends the server with SIGTERM.
  ServerRun Stop();
  void Drop() { proxy_.Drop(); }
  void WaitUntilServing(const std::string& model) const;
  std::string Log();

 private:
  void Keep();
  // Starts a server if none runs. REQUIRES: mutex_ is held.
  void StartIfEnded();

  const TemporaryDirectory directory_;
  const std::string store_ = directory_.string() + "/store";
  const std::string fault_file_ = directory_.string() + "/fault";
  std::vector<std::string> arguments_;
  std::mutex mutex_;
  std::string next_fault_ = "none";
  std::unique_ptr<ServerProcess> server_;
  std::atomic<int> starts_{0};
  DroppingProxy proxy_;
  std::atomic<bool> stopping_{false};
  std::thread keeper_;  // the last member: it uses the others
};

// Makes a call until it is answered, however often the server ends meanwhile. Throws the error of a
// call that fails otherwise, and after two minutes. (CloseSession has a deadline in the client.)
template <typename Function>
auto Persist(const Function& call) -> decltype(call()) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  for (;;) {
    try {
      return call();
    } catch (const client::CallError& error) {
      const grpc::StatusCode code = error.status().error_code();
      const bool is_lost =
          code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (!is_lost) throw;
      if (std::chrono::steady_clock::now() >= until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_FAULTS_KEPT_SERVER_H_
