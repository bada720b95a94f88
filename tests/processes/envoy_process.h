// Envoy as a child process.
#ifndef LONGSTREAM_TESTS_PROCESSES_ENVOY_PROCESS_H_
#define LONGSTREAM_TESTS_PROCESSES_ENVOY_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace longstream {

// The destructor ends it. It also ends with the thread that has started it.
class EnvoyProcess {
 public:
  // The program that `make test-services` and `make fleet` install.
  static const char* Program();

  // Starts Envoy with a file, and waits until it listens on `port`. Its log goes to another file.
  // Throws std::runtime_error if it does not listen.
  EnvoyProcess(const std::string& config, const std::string& log, int port);
  ~EnvoyProcess();
  EnvoyProcess(const EnvoyProcess&) = delete;
  EnvoyProcess& operator=(const EnvoyProcess&) = delete;

  size_t resident_bytes() const;

 private:
  void WaitUntilItListens(const std::string& log, int port) const;
  void Kill() const;

  const pid_t pid_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_ENVOY_PROCESS_H_
