// Turns that run on other replicas: their streams, and how they are cancelled.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_RELAYED_STREAM_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_RELAYED_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/sessions/fleet/peer_messages.h"
#include "service/sessions/session_key.h"

namespace longstream {

struct RelayRequest {
  fleet::ReplicaName peer;  // on which the turn runs
  SessionKey session;
  fleet::TurnId turn;
  std::string request;  // the client's longstream.v1.GenerateRequest, serialized

  // A message has come. No other one is read until Next is called, so a slow client stops the peer.
  std::function<void(v1::GenerateResponse message)> on_message;
  // The stream has ended; called once. OK: the turn was committed. Other codes are the peer's, or
  // UNAVAILABLE: the peer cannot be reached, or does not stream the turn now.
  std::function<void(const absl::Status& status)> on_end;
};

// Thread-safe. No function blocks or calls back. May be destroyed before the end: the functions of
// the request are called nevertheless.
class RelayedStream {
 public:
  virtual ~RelayedStream() = default;

  // Reads the next message, once for each message that has come.
  virtual void Next() = 0;
  // The client has gone. `on_end` is called soon, with CANCELLED.
  virtual void Cancel() = 0;
};

class Relays {
 public:
  virtual ~Relays() = default;

  // Opens the stream and reads the first message. The functions of `request` are called on other
  // threads, one at a time, and must not block. Does not block or call back. Never null.
  virtual std::shared_ptr<RelayedStream> Relay(RelayRequest request) = 0;

  // Cancels a turn that runs on the peer. `cancelled` is called once, on another thread, and must
  // not block: with the turn when it has ended. ABORTED: it does not run there. UNAVAILABLE: the
  // peer cannot be reached, or does not cancel it now. Does not block or call back.
  using Cancelled = std::function<void(const absl::StatusOr<v1::Turn>& turn)>;
  virtual void CancelTurn(const fleet::ReplicaName& peer, const SessionKey& session,
                          const fleet::TurnId& turn, Cancelled cancelled) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_RELAYED_STREAM_H_
