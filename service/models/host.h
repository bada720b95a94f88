// The thread pool and the log that the server lends to a backend.
#ifndef LONGSTREAM_SERVICE_MODELS_HOST_H_
#define LONGSTREAM_SERVICE_MODELS_HOST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "backends/api/backend.h"
#include "kernels/core/executor.h"

namespace longstream {

// The severity of a line that a backend logs.
enum class LogSeverity : int32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// Receives log lines. Called from any thread.
using LogSink = std::function<void(LogSeverity severity, std::string_view text)>;

// Owns an ls_host table. Models keep a pointer to table(), so a Host cannot be copied or moved, and
// it must outlive every model that was opened with it. The pool of the executor is borrowed and
// must outlive the Host.
class Host {
 public:
  Host(const Executor& executor, LogSink log);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const ls_host* table() const { return &table_; }

  // Logs a line that the server itself writes about a backend. Thread-safe.
  void Write(LogSeverity severity, std::string_view text) const;

 private:
  static void ParallelRun(void* context, uint32_t num_tasks,
                          void (*task)(void* argument, uint32_t i), void* argument);
  static void Log(void* context, int32_t severity, const char* text);

  const Executor executor_;
  const LogSink log_;
  ls_host table_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_HOST_H_
