// The parts that the calls of a Connection share. Its other files do not need them: gRPC's call
// headers take seconds to compile.
#ifndef LONGSTREAM_CLIENT_CONNECTION_CALLS_H_
#define LONGSTREAM_CLIENT_CONNECTION_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/cancellation.h"
#include "client/connection.h"
#include "client/interrupt.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"

namespace longstream::client {

// The deadline of Close and CancelTurn. It gives the server time to end a running turn, and ends
// the call if the server hangs.
inline constexpr std::chrono::seconds kCloseTimeout{5};

// Names the session of a call, so that a proxy before several servers sends all calls of a session
// to one server. The server refuses what is no id.
void NameSession(std::string session, grpc::ClientContext* context);

// Adds the caller's credential and id to a call, as far as there are any.
void NameCaller(const Caller& caller, grpc::ClientContext* context);

// The context of a call, which may be about a session. An interrupt cancels the call, and so does
// the caller's cancellation.
struct Call {
  explicit Call(const Caller& caller = {}, const std::string& session = "")
      : cancellation(caller.cancellation) {
    NameCaller(caller, &context);
    NameSession(session, &context);
    if (cancellation != nullptr) cancellation->Add(&context);
    if (caller.timeout.count() > 0) {
      context.set_deadline(std::chrono::system_clock::now() + caller.timeout);
    }
  }
  ~Call() {
    if (cancellation != nullptr) cancellation->Remove(&context);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Cancellation* const cancellation;
  grpc::ClientContext context;
  OnInterrupt on_interrupt{[this] { context.TryCancel(); }};
};

// The context of a call that ends a session or a turn: nothing cancels it.
struct EndingCall {
  EndingCall(const Caller& caller, const std::string& session) {
    NameCaller(caller, &context);
    NameSession(session, &context);
    context.set_deadline(std::chrono::system_clock::now() + kCloseTimeout);
  }

  grpc::ClientContext context;
};

struct Connection::Stubs {
  Stubs(std::shared_ptr<grpc::Channel> to, bool within)
      : channel(std::move(to)),
        in_process(within),
        health(channel),
        longstream(channel),
        has_connected(within) {}

  // Throws CallError unless the call has ended with OK.
  void Check(const grpc::ClientContext& context, const grpc::Status& status);

  // Waits. Returns sooner if a connection that was lost is there again, or if the calls of the
  // caller are cancelled. gRPC only connects while somebody waits for it, so the channel returns as
  // soon as the server does.
  void Pause(std::chrono::milliseconds time, const Caller& caller);

  // Whether there has been a connection at any time; waits until the first attempt has ended.
  bool HasConnected();

  const std::shared_ptr<grpc::Channel> channel;
  const bool in_process;
  grpc::health::v1::Health::Stub health;
  v1::Longstream::Stub longstream;
  std::atomic<bool> has_connected;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_CONNECTION_CALLS_H_
