// Converts the messages of the state machine to those of longstream.peer.v1, and back.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_MESSAGES_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "longstream/peer/v1/peer.pb.h"
#include "service/sessions/fleet/peer_messages.h"
#include "service/sessions/session_key.h"

namespace longstream {

// From a peer. INVALID_ARGUMENT: the message names the field and the value. The number of a request
// has the bit kOfPeer (open_calls.h).
absl::StatusOr<fleet::ReplicaName> SenderOf(const std::string& sender);
absl::StatusOr<SessionKey> FromProto(const peer::v1::SessionKey& session);
absl::StatusOr<fleet::Fetch> FromProto(const peer::v1::FetchRequest& request);
absl::StatusOr<fleet::Offer> FromProto(const peer::v1::Offer& offer);
absl::StatusOr<fleet::Moved> FromProto(const peer::v1::Moved& moved);

// The answers belong to a request of this replica. A refusal that is not known is `otherwise`.
absl::StatusOr<fleet::Given> GivenFrom(const peer::v1::Given& given, const fleet::Fetch& fetch);
fleet::Refused RefusedFrom(const peer::v1::Refused& refused, const SessionKey& session,
                           fleet::Number request, fleet::Refusal otherwise);

peer::v1::FetchRequest ToProto(const fleet::ReplicaName& sender, const fleet::Fetch& fetch);
peer::v1::Offer ToProto(const fleet::ReplicaName& sender, const fleet::Offer& offer);
peer::v1::Given ToProto(const fleet::Given& given);
peer::v1::Refused ToProto(const fleet::Refused& refused);
peer::v1::Moved ToProto(const fleet::Moved& moved);
peer::v1::SessionKey ToProto(const SessionKey& session);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_MESSAGES_H_
