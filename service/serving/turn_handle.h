// The objects with which a caller prepares, starts, reads and cancels a turn.
#ifndef LONGSTREAM_SERVICE_SERVING_TURN_HANDLE_H_
#define LONGSTREAM_SERVICE_SERVING_TURN_HANDLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/host_memory/host_memory.h"
#include "service/models/served_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// A handle of a turn that runs on its model's engine, or is about to. Copies are handles of the
// same turn. Any thread may call every function, but only one reader at a time may call Next.
class TurnHandle {
 public:
  TurnHandle() = default;
  TurnHandle(std::shared_ptr<Engine> engine, std::shared_ptr<Turn> turn)
      : engine_(std::move(engine)), turn_(std::move(turn)) {}

  // Whether this is the handle of a turn. The functions below require that it is.
  explicit operator bool() const { return turn_ != nullptr; }

  const ServedModel& model() const { return engine_->model(); }
  const TurnRequest& request() const { return turn_->request; }

  // Ends the turn with `reason`, unless it has ended or was cancelled with another reason.
  void Cancel(const absl::Status& reason = absl::CancelledError("the caller cancelled the turn")) {
    turn_->Cancel(reason);
    engine_->Wake();
  }

  // For kAppend. AddInput adds tokens to the prompt. CloseInput says that no more will come.
  void AddInput(std::span<const int32_t> tokens) {
    turn_->AddInput(tokens);
    engine_->Wake();
  }
  // RESOURCE_EXHAUSTED: as for Turn::CheckInputRoom.
  absl::Status CheckInputRoom(size_t tokens) const { return turn_->CheckInputRoom(tokens); }
  void CloseInput() {
    turn_->CloseInput();
    engine_->Wake();
  }

  // The reader's side of the turn's stream; TurnStream explains each function.
  void SetReader(std::function<void()> wake) { turn_->stream.SetReader(std::move(wake)); }
  TurnStream::Item Next() { return turn_->stream.Next(); }
  void Delivered(uint64_t position) { turn_->stream.Delivered(position); }

 private:
  friend class NewTurn;

  std::shared_ptr<Engine> engine_;  // shared, so that it outlives the turn
  std::shared_ptr<Turn> turn_;      // shared with the engine
};

// A turn that is being prepared for a session, or for a text to score. The steps are: check the
// request against model(); Lease; encode the text as the continuation of history(); Make; Start. If
// a step fails, the caller counts the error with Refuse, and the session is unchanged. Used by one
// thread at a time.
class NewTurn {
 public:
  // If `session` is nullptr, the turn gets a new session that no one else can find. `host_memory`
  // counts what the turn and its session hold.
  NewTurn(std::shared_ptr<Session> session, std::shared_ptr<Engine> engine, HostMemory* host_memory)
      : session_(std::move(session)), engine_(std::move(engine)), host_memory_(host_memory) {}

  const ServedModel& model() const { return engine_->model(); }
  HostMemory* host_memory() const { return host_memory_; }

  // Takes the lease of the session. Errors as for TurnLease::Take. UNAVAILABLE: the server is
  // draining. RESOURCE_EXHAUSTED: there is no memory for a new session.
  absl::Status Lease(std::optional<uint64_t> expected_position = std::nullopt);
  // The history that the turn adds to. REQUIRES: Lease has succeeded.
  const SessionState& history() const { return lease_.state(); }

  // Counts a refused turn in the metrics and returns `status`.
  absl::Status Refuse(absl::Status status) const;

  // Makes the handle of the turn. The turn is not started yet. `wake`: see TurnStream::SetReader.
  TurnHandle Make(TurnRequest request, std::function<void()> wake) const;
  // Passes the turn to the engine. RESOURCE_EXHAUSTED: as for Turn::Charge. Also returns the errors
  // of Engine::Start. Errors are counted in the metrics.
  // REQUIRES: Lease has succeeded.
  absl::Status Start(const TurnHandle& handle);

 private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Engine> engine_;
  HostMemory* host_memory_;
  TurnLease lease_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TURN_HANDLE_H_
