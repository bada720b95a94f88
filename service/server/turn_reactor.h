// Generate and Score, the server-streaming calls. Each runs one turn.
#ifndef LONGSTREAM_SERVICE_SERVER_TURN_REACTOR_H_
#define LONGSTREAM_SERVICE_SERVER_TURN_REACTOR_H_

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "longstream/v1/longstream.pb.h"
#include "service/clock/monotonic_time.h"
#include "service/security/caller.h"
#include "service/server/compare/compare_tools.h"
#include "service/server/peer/peer_service.h"
#include "service/server/peer/relayed_stream.h"
#include "service/server/text_threads.h"
#include "service/server/transport/call_count.h"
#include "service/server/transport/raw_request.h"
#include "service/serving/session_manager.h"

namespace longstream {

// Each function makes a reactor that deletes itself when its call is done. The pointers must
// outlive the call. `twin_tools`: makes the tools of a LiveTwin, which counts as a call of its own.
// The request is freed as soon as its turn has been checked. `relays`: open the streams of turns
// that run on other replicas; nullptr: there is no fleet.
grpc::ServerWriteReactor<v1::GenerateResponse>* NewGenerateReactor(
    grpc::CallbackServerContext* context, const Caller& caller,
    Decoded<v1::GenerateRequest> request, SessionManager* sessions, TextThreads* threads,
    CallCount* calls, std::function<CompareTools()> twin_tools, Relays* relays);

// As AttachTurn. REQUIRES: the sessions are those of a fleet.
grpc::ServerWriteReactor<v1::GenerateResponse>* NewAttachReactor(
    grpc::CallbackServerContext* context, AttachCall call, SessionManager* sessions,
    TextThreads* threads, CallCount* calls);

grpc::ServerWriteReactor<v1::ScoreResponse>* NewScoreReactor(
    grpc::CallbackServerContext* context, const Caller& caller, Decoded<v1::ScoreRequest> request,
    SessionManager* sessions, TextThreads* threads, CallCount* calls);

// Returns the expected_position of the request, if it has one.
template <typename Request>
std::optional<uint64_t> ExpectedPosition(const Request& request) {
  if (!request.has_expected_position()) return std::nullopt;
  return request.expected_position();
}

// Converts the raw deadline of a call, or returns InfiniteFuture() if the call has none. After this
// conversion no code depends on gRPC's clocks. (gRPC's other form of the deadline counts
// nanoseconds in 64 bits, which overflow after 292 years. A client may ask for 11 000 years.)
MonotonicTime DeadlineFrom(const gpr_timespec& deadline);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TURN_REACTOR_H_
