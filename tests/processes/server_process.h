// A longstream-server as a child process, for tests that need the real thing.
#ifndef LONGSTREAM_TESTS_PROCESSES_SERVER_PROCESS_H_
#define LONGSTREAM_TESTS_PROCESSES_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace longstream {

// A run of the program from its start to its end.
struct ServerRun {
  int exit_code;  // -1 where a signal ended it
  std::string log;
};

// For starts that must fail: the arguments as given. Killed after 30 s.
ServerRun RunServer(const std::string& binary, const std::vector<std::string>& arguments);

// Listens on free loopback ports. Killed with the object if it still runs.
class ServerProcess {
 public:
  // Starts it and waits until it listens. Throws std::runtime_error with its log where it does not.
  // It writes no file larger than `max_file_bytes`, its log included; 0: no limit.
  ServerProcess(const std::string& binary, std::vector<std::string> arguments,
                uint64_t max_file_bytes = 0);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int metrics_port() const { return metrics_port_; }
  uint64_t resident_bytes() const;
  bool running();

  // SIGTERM, then the exit status; -1 where a signal ended it.
  int Stop();
  std::string Log() const;

 private:
  bool ReadPorts();

  std::string log_path_;
  pid_t pid_ = -1;
  int port_ = 0;
  int metrics_port_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_SERVER_PROCESS_H_
