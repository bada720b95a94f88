// A longstream-server as a child process, for tests that need the real program.
#ifndef LONGSTREAM_TESTS_PROCESSES_SERVER_PROCESS_H_
#define LONGSTREAM_TESTS_PROCESSES_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longstream {

// A run of the program from its start to its end.
struct ServerRun {
  int exit_code;  // -1 if a signal ended it
  std::string log;
};

// Runs a server that must fail to start, with exactly these arguments. Kills it after 30 s.
ServerRun RunServer(const std::string& binary, const std::vector<std::string>& arguments);

// Limits of the process's resources; 0: the limits of the test.
struct ProcessLimits {
  uint64_t max_file_bytes = 0;   // a larger file cannot be written, and neither a larger log
  uint64_t max_descriptors = 0;  // further descriptors cannot be opened
};

// The server listens on free loopback ports. The destructor kills it if it still runs.
class ServerProcess {
 public:
  // Starts the server and waits until it listens. If it does not, throws std::runtime_error with
  // its log. `host`: of its address for clients.
  ServerProcess(const std::string& binary, std::vector<std::string> arguments,
                const ProcessLimits& limits = {}, std::string host = "127.0.0.1");
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::string address() const { return host_ + ":" + std::to_string(port_); }
  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }
  // 0: the server has no HTTP listener.
  int http_port() const { return http_port_; }
  pid_t pid() const { return pid_; }
  // The resources that the server holds and has used. REQUIRES: it runs.
  uint64_t resident_bytes() const;
  size_t descriptors() const;
  // The number of threads of each name.
  std::map<std::string, size_t> threads() const;
  double processor_seconds() const;
  bool running();

  void Signal(int signal) const;
  // Sends SIGTERM and waits. Returns the exit status, or -1 if a signal ended the server.
  int Stop();
  // Waits until the server ends. Returns as Stop does, also if it has ended already.
  int Wait();
  std::string Log() const;

 private:
  bool ReadPorts();
  void Ended(int status);
  void End();

  const std::string host_;
  std::string log_path_;
  pid_t pid_ = -1;
  int exit_code_ = -1;
  int port_ = 0;
  int metrics_port_ = 0;
  int http_port_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_SERVER_PROCESS_H_
