// The uses of sessions that calls hold, and what their holders say.
#include <memory>
#include <utility>
#include <variant>

#include "service/fleet/driver_core.h"
#include "service/sessions/fleet/outcome.h"

namespace longstream::fleet {
namespace {

using Stage = GivenUse::Stage;

class DriverUse : public SessionUse {
 public:
  DriverUse(std::shared_ptr<DriverCore> core, std::shared_ptr<GivenUse> given, Fence fence,
            UseKind kind)
      : core_(std::move(core)), given_(std::move(given)), fence_(std::move(fence)), kind_(kind) {}
  ~DriverUse() override {
    (void)core_->Post([core = core_.get(), given = given_] { core->Destroyed(*given); });
  }
  DriverUse(const DriverUse&) = delete;
  DriverUse& operator=(const DriverUse&) = delete;

  const Fence& fence() const override { return fence_; }
  bool resumes() const override { return kind_ != UseKind::kNew; }
  bool attaches() const override { return kind_ == UseKind::kAttaches; }
  void Started(const absl::Status& outcome) override {
    (void)core_->Post(
        [core = core_.get(), given = given_, outcome] { core->Started(*given, outcome); });
  }
  void Ran(TurnEnd end, std::function<void(const absl::Status&)> go_on) override {
    if (!core_->Post(
            [core = core_.get(), given = given_, end, go_on] { core->Ran(*given, end, go_on); })) {
      go_on(absl::UnavailableError("this server is shutting down"));
    }
  }
  void Committed(const absl::Status& outcome) override {
    (void)core_->Post(
        [core = core_.get(), given = given_, outcome] { core->Committed(*given, outcome); });
  }
  void Changed(const absl::Status& outcome) override {
    (void)core_->Post(
        [core = core_.get(), given = given_, outcome] { core->Changed(*given, outcome); });
  }

 private:
  const std::shared_ptr<DriverCore> core_;  // the use may outlive the driver
  const std::shared_ptr<GivenUse> given_;
  const Fence fence_;
  const UseKind kind_;
};

}  // namespace

std::shared_ptr<GivenUse> DriverCore::UseOf(const SessionKey& session) const {
  const auto found = uses_.find(session);
  return found == uses_.end() ? nullptr : found->second;
}

std::unique_ptr<SessionUse> DriverCore::MakeUse(const SessionState& state,
                                                std::shared_ptr<GivenUse> given, UseKind kind) {
  // A close does not move the session: its fence is of the row.
  const Fence fence = state.work == Work::kClose ? state.now().transaction.fence
                                                 : Fence{state.key, state.epoch, state.version};
  return std::make_unique<DriverUse>(shared_from_this(), std::move(given), fence, kind);
}

// The call has what the transaction needs.
void DriverCore::GiveToCall(const SessionState& state, Number operation) {
  if (!state.now().call.has_value() || !calls_.contains(*state.now().call)) {
    events_.emplace_back(Withdrawn{state.key, operation});
    return;
  }
  if (const std::shared_ptr<GivenUse> before = UseOf(state.key); before != nullptr) {
    EndUse(*before, absl::AbortedError("the log does not have the start of the turn"));
  }
  const auto use = std::make_shared<GivenUse>();
  use->session = state.key;
  use->work = state.work;
  use->turn = state.now().turn;
  use->call = *state.now().call;
  use->epoch = state.epoch;
  use->version = state.version;
  use->operation = operation;
  use->attached = true;
  uses_[state.key] = use;
  Answer(use->call, Entry{.how = Entry::How::kUse, .use = MakeUse(state, use, UseKind::kNew)});
}

// A turn that has been started before, or whose holder has gone after its start.
void DriverCore::Resume(const RunTurn& action) {
  const SessionState& state = *Find(action.session);
  if (!state.now().call.has_value() || !calls_.contains(*state.now().call)) {
    events_.emplace_back(TurnRan{action.session, action.operation, TurnEnd::kFails});
    return;
  }
  const auto use = std::make_shared<GivenUse>();
  use->session = state.key;
  use->turn = state.now().turn;
  use->call = *state.now().call;
  use->stage = Stage::kRunning;
  use->operation = action.operation;
  use->attached = true;
  uses_[state.key] = use;
  Answer(use->call, Entry{.how = Entry::How::kUse, .use = MakeUse(state, use, UseKind::kResumes)});
}

void DriverCore::Detach(GivenUse& use, absl::Status why) {
  use.attached = false;
  use.why = why.ok() ? absl::AbortedError("the use of the session has ended") : std::move(why);
  if (use.work != Work::kClose) ended_.push_back(use.session);
  const auto found = uses_.find(use.session);
  if (found != uses_.end() && found->second.get() == &use) uses_.erase(found);
}

// ---------------------------------------------------------------- the holder

void DriverCore::Started(GivenUse& use, const absl::Status& outcome) {
  if (!use.attached || use.stage != Stage::kBegun || use.work != Work::kTurn) return;
  const Number operation = std::exchange(use.operation, 0);
  const SessionKey session = use.session;
  const Outcome made = OutcomeOf(outcome, TransactionKind::kStart);
  if (made == Outcome::kMade || made == Outcome::kTurnExists) {
    use.stage = Stage::kStarted;
    if (made == Outcome::kMade) ++use.version;
  } else {
    Detach(use, outcome);
  }
  store_error_ = outcome;
  Handle(Transacted{session, operation, made});
}

void DriverCore::Ran(GivenUse& use, TurnEnd end, std::function<void(const absl::Status&)> go_on) {
  if (!use.attached) {
    go_on(end == TurnEnd::kFails ? absl::OkStatus() : use.why);
    return;
  }
  if (use.work != Work::kTurn || use.ran.has_value()) {
    go_on(absl::InternalError("Ran was called twice, or without a turn"));
    return;
  }
  if (use.stage == Stage::kBegun) {  // it has ended before it was admitted
    const Number operation = use.operation;
    const SessionKey session = use.session;
    Detach(use, absl::OkStatus());
    Handle(Withdrawn{session, operation});
    go_on(end == TurnEnd::kFails ? absl::OkStatus() : absl::AbortedError("the turn has no start"));
    return;
  }
  use.ran = end;
  use.go_on = std::move(go_on);
  if (use.stage == Stage::kRunning) DeliverRan(use);
}

void DriverCore::DeliverRan(GivenUse& use) {
  const Number operation = std::exchange(use.operation, 0);
  const SessionKey session = use.session;
  const TurnEnd end = *use.ran;
  if (end != TurnEnd::kFails) {
    use.stage = Stage::kRan;
    Handle(TurnRan{session, operation, end});
    return;
  }
  const auto go_on = std::exchange(use.go_on, nullptr);
  Detach(use, absl::OkStatus());
  Handle(TurnRan{session, operation, end});
  if (go_on) go_on(absl::OkStatus());
}

void DriverCore::Committed(GivenUse& use, const absl::Status& outcome) {
  if (!use.attached || use.stage != Stage::kEnding) return;
  const Number operation = use.operation;
  const SessionKey session = use.session;
  const bool abandons = use.ran == TurnEnd::kAbandons;
  const Outcome made =
      OutcomeOf(outcome, abandons ? TransactionKind::kAbandon : TransactionKind::kCommit);
  Detach(use, outcome);
  if (made == Outcome::kFenced && options_.metrics != nullptr) {
    options_.metrics->CountFencedCommit();
  }
  store_error_ = outcome;
  if (made == Outcome::kUnavailable) {  // the holder does not try again
    Handle(Withdrawn{session, operation});
  } else {
    Handle(Transacted{session, operation, made});
  }
}

void DriverCore::Changed(GivenUse& use, const absl::Status& outcome) {
  if (!use.attached || use.stage != Stage::kBegun || use.work == Work::kTurn) return;
  const Number operation = use.operation;
  const SessionKey session = use.session;
  const TransactionKind kind =
      use.work == Work::kClose ? TransactionKind::kClose : TransactionKind::kChange;
  Detach(use, outcome);
  store_error_ = outcome;
  Handle(Transacted{session, operation, OutcomeOf(outcome, kind)});
}

void DriverCore::Destroyed(GivenUse& use) {
  if (!use.attached) return;
  const Number operation = use.operation;
  const SessionKey session = use.session;
  const auto go_on = std::exchange(use.go_on, nullptr);
  Detach(use, absl::OkStatus());
  switch (use.stage) {
    case Stage::kBegun:
      Handle(Withdrawn{session, operation});
      break;
    case Stage::kStarted:  // RunTurn or Transact will find nobody
    case Stage::kRan:
      break;
    case Stage::kRunning:
      Handle(TurnRan{session, operation, TurnEnd::kFails});
      break;
    case Stage::kEnding:
      Handle(Transacted{session, operation, Outcome::kUnknown});
  }
  if (go_on) go_on(use.why);
}

// ---------------------------------------------------------------- the end of a use

void DriverCore::EndUse(GivenUse& use, const absl::Status& why) {
  const bool computes = use.work == Work::kTurn && use.stage <= Stage::kRunning;
  const auto go_on = std::exchange(use.go_on, nullptr);
  const SessionKey session = use.session;
  const bool has_ended = use.ran.has_value();
  Detach(use, why);
  if (computes && !has_ended) copies_->Stop(session, why);
  if (go_on) go_on(why);
}

void DriverCore::Reconcile(const std::shared_ptr<GivenUse>& use) {
  if (!use->attached) return;
  const SessionState* state = Find(use->session);
  const bool goes_on = state != nullptr && state->phase != Phase::kFree &&
                       state->work == use->work &&
                       (use->work != Work::kTurn || state->now().turn == use->turn);
  if (!goes_on) {
    const bool is_leaving = machine_.exited() || grace_over_;
    EndUse(*use, is_leaving
                     ? absl::UnavailableError("this server is shutting down")
                     : absl::AbortedError("the turn has ended in the log meanwhile; send the "
                                          "request again with the same turn_id"));
    return;
  }
  // It waits for admission, perhaps for long.
  if (grace_over_ && use->work == Work::kTurn && use->stage == Stage::kBegun &&
      std::holds_alternative<GraceOver>(*event_)) {
    copies_->Stop(use->session, absl::UnavailableError("this server is shutting down"));
  }
}

}  // namespace longstream::fleet
