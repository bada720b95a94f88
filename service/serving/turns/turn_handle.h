// The objects with which a caller prepares, starts, reads and cancels a turn.
#ifndef LONGSTREAM_SERVICE_SERVING_TURNS_TURN_HANDLE_H_
#define LONGSTREAM_SERVICE_SERVING_TURNS_TURN_HANDLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/host_memory/host_memory.h"
#include "service/metrics/alias_metrics.h"
#include "service/models/served_model.h"
#include "service/security/tenants/tenant.h"
#include "service/serving/turns/session_turns.h"
#include "service/sessions/session.h"
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

  // Whether a later call can read the turn when this one has left it.
  bool outlives_reader() const { return turn_->request.outlives_reader; }

  // Ends the turn with `reason`, unless it has ended or was cancelled with another reason.
  void Cancel(const absl::Status& reason = absl::CancelledError("the caller cancelled the turn")) {
    turn_->Cancel(reason);
    engine_->Wake();
  }

  // The engine looks at the turn now.
  void Wake() { engine_->Wake(); }

  // For kAppend. AddInput adds tokens to the prompt. CloseInput says that no more will come.
  void AddInput(std::span<const int32_t> tokens) {
    turn_->AddInput(tokens);
    engine_->Wake();
  }
  // RESOURCE_EXHAUSTED: as for Turn::CheckInputRoom and TurnAllowance::Take. The caller then ends
  // the turn, and does not call AddInput. Call it once for each AddInput: it takes the tokens from
  // the quota of the tenant.
  absl::Status TakeInputRoom(size_t tokens) const {
    absl::Status status = turn_->CheckInputRoom(tokens);
    return status.ok() ? turn_->allowance.Take(tokens) : status;
  }
  void CloseInput() {
    turn_->CloseInput();
    engine_->Wake();
  }

  // The reader's side of the turn's stream; TurnStream explains each function.
  TurnStream::Item Next() { return turn_->stream.Next(reader_); }
  void Delivered(uint64_t position) { turn_->stream.Delivered(position); }
  void Forget() { turn_->stream.Forget(reader_); }

  // Makes this the handle of the turn's new reader. Errors as for TurnStream::Attach.
  absl::Status Attach(const TurnStream::Place& place, std::function<void()> wake) {
    absl::StatusOr<TurnStream::Reader> reader = turn_->stream.Attach(place, std::move(wake));
    if (!reader.ok()) return reader.status();
    reader_ = *reader;
    turn_->ReaderCame();
    return absl::OkStatus();
  }
  // The reader leaves the turn, which goes on or ends as its request says. The reader still gets a
  // TurnEnd.
  void Leave() {
    if (!turn_->stream.Leave(reader_)) return;
    turn_->ReaderGone();
    engine_->Wake();
  }

 private:
  friend class NewTurn;

  std::shared_ptr<Engine> engine_;  // shared, so that it outlives the turn
  std::shared_ptr<Turn> turn_;      // shared with the engine
  TurnStream::Reader reader_ = TurnStream::kFirstReader;
};

// A turn that is being prepared for a session, or for a text to score. The steps are: check the
// request against model(); Lease; encode the text as the continuation of history(); Make; Start. If
// a step fails, the caller counts the error with Refuse, and the session is unchanged. Used by one
// thread at a time.
class NewTurn {
 public:
  // The session does not expire before the lease is taken, Name returns kReplayed, or the object is
  // destroyed. The quotas of `tenant` count the use of the turn and of its session. `arm`: of the
  // alias that it came by, or nullptr. `looked`: the id that the client chose.
  NewTurn(const std::shared_ptr<Session>& session, std::shared_ptr<SessionTurns> turns,
          std::shared_ptr<Engine> engine, std::shared_ptr<Tenant> tenant,
          std::shared_ptr<ArmMetrics> arm = nullptr,
          std::optional<SessionTurns::Looked> looked = std::nullopt)
      : session_(session),
        awaited_(session),
        turns_(std::move(turns)),
        engine_(std::move(engine)),
        tenant_(std::move(tenant)),
        arm_(std::move(arm)),
        looked_(looked) {}
  // The turn gets a new session that no one else can find. `hold`: exists until the turn is with
  // the engine, or until the object is destroyed. `arm`: as above.
  NewTurn(std::shared_ptr<Engine> engine, std::shared_ptr<void> hold,
          std::shared_ptr<Tenant> tenant, std::shared_ptr<ArmMetrics> arm)
      : engine_(std::move(engine)),
        hold_(std::move(hold)),
        tenant_(std::move(tenant)),
        arm_(std::move(arm)) {}
  // The tap of the turn with this id, if it generates an answer. May return nullptr.
  using ChooseTap = std::function<std::shared_ptr<AnswerTap>(const TurnId& id)>;
  // REQUIRES: the turn has a session.
  void SetTap(ChooseTap choose) { choose_tap_ = std::move(choose); }

  // Another turn with a new session, on the same version of the model. REQUIRES: this one has a new
  // session.
  NewTurn Another() const { return {engine_, hold_, tenant_, arm_}; }

  const ServedModel& model() const { return engine_->model(); }
  const Tenant& tenant() const { return *tenant_; }
  HostMemory* host_memory() const { return tenant_->host_memory(); }

  // How a request with a turn id goes on.
  enum class How { kNew, kAttached, kReplayed, kLost };
  // Gives the turn the id that its client chose. If the session has the turn already, the result
  // says what to do: with kAttached the caller reads Running(), with kReplayed the answer that
  // SessionManager::LoadAnswer finds, and with kLost it runs the turn again, as lost() says. Errors
  // as for SessionTurns::Begin. UNAVAILABLE: the use only attaches to a turn, which does not run in
  // memory now. Call it before Lease. REQUIRES: the turn was made for this id.
  absl::StatusOr<How> Name(const TurnId& id, TurnKind kind, const std::string& digest);
  // REQUIRES: Name returned kAttached.
  TurnHandle Running() const { return running_; }
  // The use of a session that a fleet shares, for the turn with this id. Call it before Name or Id.
  void SetUse(std::shared_ptr<fleet::SessionUse> use, const TurnId& id) {
    use_ = std::move(use);
    is_shared_ = true;
    drawn_id_ = id;
  }
  // The turn can only be read: Name returns kReplayed, or UNAVAILABLE.
  void SetReplayOnly() { replays_only_ = true; }

  // Whether the turn is logged in the store.
  bool durable() const { return turns_ != nullptr && turns_->durable(); }
  // Returns a function that finds the committed turn. It blocks while it reads the store; the turn
  // need not exist any more. REQUIRES: Name returned kReplayed.
  std::function<absl::StatusOr<SessionTurns::Committed>()> AnswerReader() const;
  // The handle of a committed turn, whose answer is there from its beginning.
  TurnHandle Replay(SessionTurns::Committed committed) const;
  // The turn that was lost. nullptr unless Name returned kLost.
  const SessionTurns::Lost* lost() const { return lost_.has_value() ? &*lost_ : nullptr; }
  // The entry of a turn that the caller runs. nullptr: the turn has no id, or Make was called.
  const std::shared_ptr<TurnEntry>& entry() const { return entry_; }
  // Draws an id and returns it. Call it instead of Name. REQUIRES: the turn has a session.
  std::string Id(TurnKind kind);

  // Takes the lease of the session. Errors as for TurnLease::Take and Engine::CheckOpen.
  // RESOURCE_EXHAUSTED: there is no memory for a new session.
  absl::Status Lease(std::optional<uint64_t> expected_position = std::nullopt);
  // Copies the tokens of the session instead, for a caller that makes no turn of this. Errors as
  // for Session::CopyTokens and Engine::CheckOpen. REQUIRES: the turn has a session.
  absl::StatusOr<std::vector<int32_t>> CopyTokens() const;
  // The history that the turn adds to. REQUIRES: Lease has succeeded.
  const SessionState& history() const { return lease_.state(); }

  // Counts a refused turn in the metrics and returns `status`.
  absl::Status Refuse(absl::Status status) const;
  // Counts a turn that was named before. `how`: as for ModelMetrics::CountResumedTurn.
  void CountResumed(std::string_view how) const { engine_->CountResumed(how); }

  // Makes the handle of the turn. The turn is not started yet. `wake`: see TurnStream::SetReader.
  TurnHandle Make(TurnRequest request, std::function<void()> wake);
  // Passes the turn to the engine. RESOURCE_EXHAUSTED: as for Turn::Charge and Tenant::BeginTurn.
  // Also returns the errors of Engine::Start. Errors are counted in the metrics. REQUIRES: Lease
  // has succeeded.
  absl::Status Start(const TurnHandle& handle);

 private:
  void BeginDrawn(TurnKind kind);
  void CountInArm(const absl::Status& refusal) const;
  absl::Status TakeQuota(const TurnHandle& handle);

  std::shared_ptr<Session> session_;
  AwaitedSession awaited_;  // until the lease is taken, or the turn is a replay
  std::shared_ptr<SessionTurns> turns_;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<void> hold_;  // of the engine
  std::shared_ptr<Tenant> tenant_;
  std::shared_ptr<ArmMetrics> arm_;
  ChooseTap choose_tap_;  // may be empty
  std::optional<SessionTurns::Looked> looked_;
  std::shared_ptr<TurnEntry> entry_;  // nullptr: the turn has no id yet, or exists already
  TurnHandle running_;
  std::optional<SessionTurns::Lost> lost_;
  std::shared_ptr<fleet::SessionUse> use_;  // until the turn has an entry; shared with the gate
  bool is_shared_ = false;                  // there was such a use
  std::optional<TurnId> drawn_id_;          // for a turn whose client has named no id
  bool replays_only_ = false;
  TurnLease lease_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TURNS_TURN_HANDLE_H_
