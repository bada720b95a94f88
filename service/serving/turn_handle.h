// A turn as its caller holds it: prepared, started, read, cancelled.
#ifndef LONGSTREAM_SERVICE_SERVING_TURN_HANDLE_H_
#define LONGSTREAM_SERVICE_SERVING_TURN_HANDLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// A turn that runs on its model's engine, or is about to. Copies are handles of the same turn.
// Every function may be called from any thread; Next by one reader at a time.
class TurnHandle {
 public:
  TurnHandle() = default;
  TurnHandle(std::shared_ptr<Engine> engine, std::shared_ptr<Turn> turn)
      : engine_(std::move(engine)), turn_(std::move(turn)) {}

  // Whether this is a handle of a turn. The functions below require it.
  explicit operator bool() const { return turn_ != nullptr; }

  const ServedModel& model() const { return engine_->model(); }
  const TurnRequest& request() const { return turn_->request; }

  // Ends the turn with `reason`, unless it has ended: the first reason stands.
  void Cancel(const absl::Status& reason = absl::CancelledError("the caller cancelled the turn")) {
    turn_->Cancel(reason);
    engine_->Wake();
  }

  // kAppend: more tokens of the prompt; no more will come.
  void AddInput(std::span<const int32_t> tokens) {
    turn_->AddInput(tokens);
    engine_->Wake();
  }
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

  std::shared_ptr<Engine> engine_;  // shared: it outlives the turn
  std::shared_ptr<Turn> turn_;      // shared with the engine
};

// A turn that is being prepared: for a session or, to score a text, for none. The steps are: check
// the request against model(), Lease, read its text against history(), Make, Start. A refusal on
// the way is counted by Refuse and leaves the session as it was. Used by one thread at a time.
class NewTurn {
 public:
  // `session` nullptr: the turn gets a session of its own, which nobody else can find.
  NewTurn(std::shared_ptr<Session> session, std::shared_ptr<Engine> engine)
      : session_(std::move(session)), engine_(std::move(engine)) {}

  const ServedModel& model() const { return engine_->model(); }

  // Takes the session's turn. Errors as TurnLease::Take; UNAVAILABLE: the server drains.
  absl::Status Lease(std::optional<uint64_t> expected_position = std::nullopt);
  // The history that the turn adds to. REQUIRES: Lease has succeeded.
  const SessionState& history() const { return lease_.state(); }

  // Counts a refusal in the metrics and returns it.
  absl::Status Refuse(absl::Status status) const;

  // The handle of the turn, which has yet to start. `wake`: see TurnStream::SetReader.
  TurnHandle Make(TurnRequest request, std::function<void()> wake) const;
  // Hands the turn to the engine. Errors as Engine::Start, counted. REQUIRES: Lease has succeeded.
  absl::Status Start(const TurnHandle& handle);

 private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Engine> engine_;
  TurnLease lease_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TURN_HANDLE_H_
