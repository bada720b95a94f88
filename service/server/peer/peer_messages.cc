// Checks each field that a peer has sent.
#include "service/server/peer/peer_messages.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/security/credentials.h"
#include "service/server/peer/open_calls.h"

namespace longstream {
namespace {

// The most bytes of a name that an error repeats.
constexpr size_t kShownBytes = 64;
constexpr size_t kMaxPeerNameBytes = 128;

absl::Status InvalidField(absl::string_view field, absl::string_view expected,
                          const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", found '",
                                                 absl::CHexEscape(found.substr(0, kShownBytes)),
                                                 "'"));
}

// The first number of epochs and versions is 1.
absl::Status CheckPositive(absl::string_view field, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected 1 or more, found ", value));
}

absl::StatusOr<fleet::Number> NumberOfPeer(uint64_t request) {
  if (request >= 1 && request < kOfPeer) return request | kOfPeer;
  return absl::InvalidArgumentError(
      absl::StrCat("request: expected 1 ... 2^63 - 1, found ", request));
}

peer::v1::Refusal ToProto(fleet::Refusal why) {
  switch (why) {
    case fleet::Refusal::kNotMine:
      return peer::v1::REFUSAL_NOT_MINE;
    case fleet::Refusal::kRunning:
      return peer::v1::REFUSAL_RUNNING;
    case fleet::Refusal::kBusy:
      return peer::v1::REFUSAL_BUSY;
    case fleet::Refusal::kNotYet:
      return peer::v1::REFUSAL_NOT_YET;
    case fleet::Refusal::kNotTaken:
      return peer::v1::REFUSAL_NOT_TAKEN;
  }
  return peer::v1::REFUSAL_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<fleet::ReplicaName> SenderOf(const std::string& sender) {
  const bool printable = std::all_of(sender.begin(), sender.end(),
                                     [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!sender.empty() && sender.size() <= kMaxPeerNameBytes && printable) return sender;
  return InvalidField("sender", "the name of a replica, 1 to 128 characters", sender);
}

absl::StatusOr<SessionKey> FromProto(const peer::v1::SessionKey& session) {
  if (!session.tenant().empty() && !IsCredentialName(session.tenant())) {
    return InvalidField("session.tenant", "1 to 64 letters, digits, '.', '_' or '-'",
                        session.tenant());
  }
  const absl::StatusOr<SessionId> id = SessionId::Parse(session.session_id(), "session.session_id");
  if (!id.ok()) return id.status();
  return SessionKey{session.tenant(), *id};
}

absl::StatusOr<fleet::Fetch> FromProto(const peer::v1::FetchRequest& request) {
  absl::StatusOr<SessionKey> session = FromProto(request.session());
  if (!session.ok()) return session.status();
  const absl::StatusOr<fleet::Number> number = NumberOfPeer(request.request());
  if (!number.ok()) return number.status();
  if (absl::Status status = CheckPositive("epoch", request.epoch()); !status.ok()) return status;
  fleet::Fetch fetch{*std::move(session), *number, request.epoch(), {}};
  if (request.turn_id().empty()) return fetch;
  const absl::StatusOr<fleet::TurnId> turn = SessionId::Parse(request.turn_id(), "turn_id");
  if (!turn.ok()) return turn.status();
  fetch.turn = *turn;
  return fetch;
}

absl::StatusOr<fleet::Offer> FromProto(const peer::v1::Offer& offer) {
  absl::StatusOr<SessionKey> session = FromProto(offer.session());
  if (!session.ok()) return session.status();
  const absl::StatusOr<fleet::Number> number = NumberOfPeer(offer.request());
  if (!number.ok()) return number.status();
  if (absl::Status status = CheckPositive("epoch", offer.epoch()); !status.ok()) return status;
  if (absl::Status status = CheckPositive("version", offer.version()); !status.ok()) return status;
  return fleet::Offer{*std::move(session), *number, offer.epoch(), offer.version(),
                      offer.has_caches()};
}

absl::StatusOr<fleet::Moved> FromProto(const peer::v1::Moved& moved) {
  absl::StatusOr<SessionKey> session = FromProto(moved.session());
  if (!session.ok()) return session.status();
  if (absl::Status status = CheckPositive("epoch", moved.epoch()); !status.ok()) return status;
  return fleet::Moved{*std::move(session), moved.epoch(), moved.closed()};
}

absl::StatusOr<fleet::Given> GivenFrom(const peer::v1::Given& given, const fleet::Fetch& fetch) {
  if (absl::Status status = CheckPositive("epoch", given.epoch()); !status.ok()) return status;
  if (absl::Status status = CheckPositive("version", given.version()); !status.ok()) return status;
  return fleet::Given{fetch.session, fetch.request, given.epoch(), given.version(),
                      given.has_caches()};
}

fleet::Refused RefusedFrom(const peer::v1::Refused& refused, const SessionKey& session,
                           fleet::Number request, fleet::Refusal otherwise) {
  fleet::Refusal why = otherwise;
  switch (refused.why()) {
    case peer::v1::REFUSAL_NOT_MINE:
      why = fleet::Refusal::kNotMine;
      break;
    case peer::v1::REFUSAL_RUNNING:
      why = fleet::Refusal::kRunning;
      break;
    case peer::v1::REFUSAL_BUSY:
      why = fleet::Refusal::kBusy;
      break;
    case peer::v1::REFUSAL_NOT_YET:
      why = fleet::Refusal::kNotYet;
      break;
    case peer::v1::REFUSAL_NOT_TAKEN:
      why = fleet::Refusal::kNotTaken;
      break;
    default:
      break;
  }
  return {session, request, why};
}

peer::v1::SessionKey ToProto(const SessionKey& session) {
  peer::v1::SessionKey message;
  message.set_tenant(session.tenant);
  message.set_session_id(session.id.ToString());
  return message;
}

peer::v1::FetchRequest ToProto(const fleet::ReplicaName& sender, const fleet::Fetch& fetch) {
  peer::v1::FetchRequest message;
  message.set_sender(sender);
  *message.mutable_session() = ToProto(fetch.session);
  message.set_request(fetch.request);
  message.set_epoch(fetch.epoch);
  if (fetch.turn != fleet::TurnId{}) message.set_turn_id(fetch.turn.ToString());
  return message;
}

peer::v1::Offer ToProto(const fleet::ReplicaName& sender, const fleet::Offer& offer) {
  peer::v1::Offer message;
  message.set_sender(sender);
  *message.mutable_session() = ToProto(offer.session);
  message.set_request(offer.request);
  message.set_epoch(offer.epoch);
  message.set_version(offer.version);
  message.set_has_caches(offer.has_caches);
  return message;
}

peer::v1::Given ToProto(const fleet::Given& given) {
  peer::v1::Given message;
  message.set_epoch(given.epoch);
  message.set_version(given.version);
  message.set_has_caches(given.has_caches);
  return message;
}

peer::v1::Refused ToProto(const fleet::Refused& refused) {
  peer::v1::Refused message;
  message.set_why(ToProto(refused.why));
  return message;
}

peer::v1::Moved ToProto(const fleet::Moved& moved) {
  peer::v1::Moved message;
  *message.mutable_session() = ToProto(moved.session);
  message.set_epoch(moved.epoch);
  message.set_closed(moved.closed);
  return message;
}

}  // namespace longstream
