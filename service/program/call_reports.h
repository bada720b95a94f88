// Tells the metrics and the log how calls end.
#ifndef LONGSTREAM_SERVICE_PROGRAM_CALL_REPORTS_H_
#define LONGSTREAM_SERVICE_PROGRAM_CALL_REPORTS_H_

#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/interceptors/request_id.h"
#include "service/metrics/calls/call_metrics.h"
#include "service/metrics/json_log.h"
#include "service/metrics/line_limit.h"
#include "service/metrics/session_metrics.h"

namespace longstream {

// Logs a call that ended with an error. Errors that clients cause are logged only at the level
// debug, so that clients cannot fill the log, and without their messages, which may repeat a
// client's input. gRPC's channelz answers a malformed request with INTERNAL, so each of its errors
// counts as a client's.
inline void LogFailedCall(const JsonLog& log, std::string_view request_id, std::string_view method,
                          const absl::Status& status) {
  const bool is_ours = (absl::IsInternal(status) || absl::IsUnknown(status)) &&
                       !method.starts_with("/grpc.channelz.");
  log.Write(is_ours ? LogLevel::kError : LogLevel::kDebug, "call_failed",
            {{"request_id", std::string(request_id)},
             {"method", std::string(method)},
             {"code", absl::StatusCodeToString(status.code())},
             {"error", is_ours ? std::string(status.message()) : ""}});
}

// Logs which sessions' logs are damaged, a few times a minute, because a client may call again and
// again. Thread-safe.
class LostSessionLog {
 public:
  explicit LostSessionLog(const JsonLog* log) : log_(log) {}

  void Write(std::string_view request_id, std::string_view method, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto error = limit_.Pass(std::string(status.message()), LineLimit::Clock::now());
    if (!error.has_value()) return;
    log_->Write(LogLevel::kError, "session_lost",
                {{"request_id", request_id}, {"method", method}, {"error", *error}});
  }

 private:
  const JsonLog* const log_;
  absl::Mutex mutex_;
  LineLimit limit_ ABSL_GUARDED_BY(mutex_){/*lines_per_minute=*/20, /*max_bytes=*/500};
};

// For the calls of all listeners. `log`, `registry` and `sessions` outlive the listener.
inline CallEndListener ReportCalls(const JsonLog& log, prometheus::Registry* registry,
                                   SessionMetrics* sessions) {
  return [&log, sessions,
          calls = std::make_shared<CallMetrics>(
              registry, std::vector<std::string>{"/longstream.v1.Longstream/Generate"}),
          lost = std::make_shared<LostSessionLog>(&log)](
             std::string_view request_id, std::string_view method, const absl::Status& status) {
    calls->Count(method, status.code());
    if (status.ok()) return;
    // A damaged file of a client is no lost session.
    const bool is_stored = method != "/longstream.v1.Longstream/ImportSession";
    if (absl::IsDataLoss(status) && is_stored) {
      sessions->CountLost();
      lost->Write(request_id, method, status);
    }
    LogFailedCall(log, request_id, method, status);
  };
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_CALL_REPORTS_H_
