// The parts of the service that a call needs to transfer a session.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSFER_TRANSFER_CALL_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSFER_TRANSFER_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "service/serving/session_manager.h"

namespace longstream {

struct TransferCall {
  SessionManager* sessions = nullptr;  // outlives the call
  std::string tenant;                  // the caller's
  // Runs long work on another thread; while it waits, the call keeps `held_bytes`.
  // RESOURCE_EXHAUSTED: there is no room; the work is not run.
  std::function<absl::Status(uint64_t held_bytes, std::function<void()> work)> run;
  std::shared_ptr<void> counted;  // counts the call while it exists
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSFER_TRANSFER_CALL_H_
