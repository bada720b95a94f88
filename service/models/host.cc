// The functions of the host table call the executor and the log sink.
#include "service/models/host.h"

#include <algorithm>
#include <utility>

namespace longstream {

Host::Host(const Executor& executor, LogSink log)
    : executor_(executor),
      log_(std::move(log)),
      table_{sizeof(ls_host), this, executor.num_threads, &Host::ParallelRun, &Host::Log} {}

void Host::ParallelRun(void* context, uint32_t num_tasks, void (*task)(void* argument, uint32_t i),
                       void* argument) {
  const Host* host = static_cast<const Host*>(context);
  ParallelFor(host->executor_, num_tasks, [&](uint32_t i) { task(argument, i); });
}

void Host::Log(void* context, int32_t severity, const char* text) {
  if (text == nullptr) return;
  const Host* host = static_cast<const Host*>(context);
  host->Write(static_cast<LogSeverity>(std::clamp(severity, 0, 3)), text);
}

void Host::Write(LogSeverity severity, std::string_view text) const {
  if (log_) log_(severity, text);
}

}  // namespace longstream
