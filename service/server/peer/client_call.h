// What the calls of this replica to its peers have in common.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CLIENT_CALL_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CLIENT_CALL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/time/time.h"
#include "service/server/peer/own_calls.h"

namespace longstream {

// Sets the credential and the deadline. The call waits for a connection, because the replica may
// just have been replaced.
inline void PrepareCall(const PeerLine& line, absl::Duration most, grpc::ClientContext* context) {
  context->set_wait_for_ready(true);
  if (most < absl::InfiniteDuration()) {
    context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(most));
  }
  if (!line.token.empty()) context->AddMetadata("authorization", "Bearer " + line.token);
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CLIENT_CALL_H_
