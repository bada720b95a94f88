// The actions of the machine.
#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "service/fleet/counted_caches.h"
#include "service/fleet/driver_core.h"
#include "service/sessions/fleet/outcome.h"
#include "service/sessions/store/changes.h"

namespace longstream::fleet {

void DriverCore::Do(const ReadRow& action) {
  const SessionState* state = Find(action.session);
  const bool is_check = state != nullptr && state->work == Work::kCheck;
  reader_.Read(
      action.session, action.turn, is_check ? RowReader::For::kCheck : RowReader::For::kWork,
      [this, session = action.session, operation = action.operation](absl::StatusOr<OwnedRow> row) {
        (void)Post([this, session, operation, row = std::move(row)] {
          RowRead read{session, operation, std::nullopt};
          if (row.ok()) read.row = *row;
          store_error_ = row.status();
          Handle(std::move(read));
        });
      });
}

void DriverCore::Do(const Transact& action) {
  const SessionKey& session = action.transaction.fence.key;
  switch (action.transaction.kind) {
    case TransactionKind::kClaim:
    case TransactionKind::kTransfer:
      ChangeOwner(action);
      return;
    case TransactionKind::kStart:
    case TransactionKind::kChange:
    case TransactionKind::kClose:
      GiveToCall(*Find(session), action.operation);
      return;
    case TransactionKind::kAbandon:
    case TransactionKind::kCommit:
      break;
  }
  const std::shared_ptr<GivenUse> use = UseOf(session);
  if (use == nullptr || use->stage != GivenUse::Stage::kRan) {
    events_.emplace_back(Withdrawn{session, action.operation});
    return;
  }
  use->stage = GivenUse::Stage::kEnding;
  use->operation = action.operation;
  std::exchange(use->go_on, nullptr)(absl::OkStatus());
}

void DriverCore::ChangeOwner(const Transact& action) {
  const Transaction& transaction = action.transaction;
  const bool is_claim = transaction.kind == TransactionKind::kClaim;
  const SessionState* state = Find(transaction.fence.key);
  // A transfer to itself only fences what may still be made.
  const bool is_taken = !is_claim && state != nullptr && !state->owned;
  store::ChangeOwner change{
      transaction.fence, transaction.owner,
      is_claim ? store::OwnerCondition::kClaim : store::OwnerCondition::kTransfer};
  // Without caches, an offer leads here at once.
  const auto moving = moving_.find(transaction.fence.key);
  const MonotonicTime begin = moving == moving_.end() ? MonotonicTime::Now() : moving->second;
  commits_->Submit(std::move(change), [self = shared_from_this(), action, is_claim, is_taken,
                                       begin](const absl::StatusOr<store::Applied>& applied) {
    FleetMetrics* const metrics = self->options_.metrics;
    if (applied.ok() && metrics != nullptr) {
      if (is_claim) metrics->CountClaim();
      if (is_taken) {
        metrics->CountHandover("taken");
        metrics->ObserveHandover(MonotonicTime::Now() - begin);
      }
    }
    (void)self->Post([core = self.get(), action, status = applied.status()] {
      core->store_error_ = status;
      core->Handle(Transacted{action.transaction.fence.key, action.operation,
                              OutcomeOf(status, action.transaction.kind)});
    });
  });
}

void DriverCore::Do(const Send& action) {
  PeerMessage message = action.message;
  if (const auto* attach = std::get_if<Attach>(&message)) {
    RelayCall(*attach, action.to);
    return;
  }
  if (std::holds_alternative<Attached>(message)) return;
  const auto set_caches = [&](auto& offer) {
    const Fence at{offer.session, offer.epoch, offer.version};
    const absl::Status found = offer.has_caches
                                   ? copies_->FindCaches(at)
                                   : absl::NotFoundError("the session is not in memory");
    if (!found.ok()) {
      without_caches_[offer.session] = {LostCaches::Where::kSent, offer.session, action.to, found};
    }
    offer.has_caches = sends_caches_ = found.ok();
    NoteGiving(offer.session, action.to, offer.request);
  };
  if (auto* given = std::get_if<Given>(&message)) set_caches(*given);
  if (auto* offer = std::get_if<Offer>(&message)) set_caches(*offer);
  if (!action.to.empty()) peers_->Send(action.to, message);
}

// The turn runs on the owner: the call reads its stream there.
void DriverCore::RelayCall(const Attach& attach, const ReplicaName& owner) {
  const std::optional<CallId> call = machine_.CallOfRelay(attach.relay);
  const auto replica = replicas_.find(owner);
  if (!call.has_value() || !calls_.contains(*call) || replica == replicas_.end()) {
    events_.emplace_back(RelayBroken{attach.relay});
    return;
  }
  relays_[attach.relay] = {owner, attach.session};
  Answer(*call, Entry{.how = Entry::How::kRelay, .peer = replica->second, .relay = attach.relay});
}

void DriverCore::Do(const SendCaches& action) {
  const SessionState* state = Find(action.session);
  if (!std::exchange(sends_caches_, false) || state == nullptr) return;
  copies_->ReadCaches(
      {action.session, state->epoch, state->version},
      [self = shared_from_this(), action](const SessionCopies::Reading& caches) {
        (void)self->Post([core = self.get(), action, caches] { core->CachesRead(action, caches); });
      });
}

void DriverCore::CachesRead(const SendCaches& action, const SessionCopies::Reading& caches) {
  if (stopped_) return;
  if (!caches.ok() && FindGiving(action.to, action.request) != nullptr) {
    without_caches_[action.session] = {LostCaches::Where::kSent, action.session, action.to,
                                       caches.status()};
  }
  peers_->SendCaches(action.to, action.request,
                     CountBytes(caches.value_or(nullptr), options_.metrics));
}

void DriverCore::Do(const ReceiveCaches& action) {
  const SessionState* state = Find(action.session);
  if (state == nullptr) return;
  const Fence& expected = state->now().transaction.fence;
  const Fence at{action.session, expected.epoch + 1, expected.version + 1};
  using Writer = absl::StatusOr<std::shared_ptr<CacheWriter>>;
  peers_->ReceiveCaches(
      action.from, action.request,
      [self = shared_from_this(), at](const std::string& header,
                                      const std::function<void(Writer)>& writer) {
        const bool posted = self->Post([core = self.get(), at, header, writer] {
          if (core->stopped_) {
            writer(absl::UnavailableError("this server is shutting down"));
          } else {
            core->copies_->TakeCaches(
                at.key, header, at, [writer, metrics = core->options_.metrics](Writer taken) {
                  writer(taken.ok() ? CountBytes(*std::move(taken), metrics) : std::move(taken));
                });
          }
        });
        if (!posted) writer(absl::UnavailableError("this server is shutting down"));
      },
      [self = shared_from_this(), session = action.session,
       operation = action.operation](const absl::Status& arrived) {
        (void)self->Post([core = self.get(), session, operation, arrived] {
          core->CachesCame(session, operation, arrived);
        });
      });
}

void DriverCore::CachesCame(const SessionKey& session, Number operation,
                            const absl::Status& arrived) {
  const SessionState* state = Find(session);
  const bool is_awaited =
      state != nullptr && state->phase == Phase::kReceiving && state->now().operation == operation;
  if (!arrived.ok() && is_awaited) {
    CachesLost({LostCaches::Where::kReceived, session, state->now().peer, arrived});
  }
  Handle(CachesArrived{session, operation, arrived.ok()});
}

void DriverCore::Do(const RunTurn& action) {
  const std::shared_ptr<GivenUse> use = UseOf(action.session);
  if (use == nullptr || use->stage != GivenUse::Stage::kStarted) {
    Resume(action);
    return;
  }
  const SessionState& state = *Find(action.session);
  if (use->epoch != state.epoch || use->version != state.version) {
    // The row was read meanwhile, and says something else than what the holder computes from.
    EndUse(*use, absl::AbortedError("the session has another version; send the request again"));
    Resume(action);
    return;
  }
  use->stage = GivenUse::Stage::kRunning;
  use->operation = action.operation;
  if (use->ran.has_value()) DeliverRan(*use);
}

void DriverCore::Do(const StopTurn& action) {
  if (const std::shared_ptr<GivenUse> use = UseOf(action.session); use != nullptr) {
    EndUse(*use, StatusOf(action.why, action.session, {}));
  }
}

void DriverCore::Do(const KeepCopy& action) { copies_->Keep(action.from, action.to); }
void DriverCore::Do(const DropCopy& action) { copies_->Drop(action.session); }

// A call that attaches. The holder of the turn's use goes on.
void DriverCore::Do(const ShowTurn& action) {
  if (!calls_.contains(action.call)) return;
  const SessionState* state = Find(action.session);
  if (state == nullptr || UseOf(action.session) == nullptr) {
    Answer(action.call,
           absl::UnavailableError("turn " + action.turn.ToString() + " of session " +
                                  action.session.id.ToString() +
                                  " has ended, and it is not known yet whether it was committed"));
    return;
  }
  auto without_effect = std::make_shared<GivenUse>();
  without_effect->session = action.session;
  without_effect->turn = action.turn;
  without_effect->why = absl::AbortedError("turn " + action.turn.ToString() +
                                           " has ended meanwhile; send the request again");
  Answer(action.call, Entry{.how = Entry::How::kUse,
                            .use = MakeUse(*state, without_effect, UseKind::kAttaches)});
}

void DriverCore::Do(const EndCall& action) {
  const auto call = calls_.find(action.call);
  if (call == calls_.end()) {
    EndUseOf(action);
    return;
  }
  using enum fleet::Answer;
  switch (action.answer) {
    case kReplay:
    case kCommitted:
      Answer(action.call, Entry{.how = Entry::How::kReplay});
      return;
    case kClosed:
      Answer(action.call, Entry{.how = Entry::How::kClosed});
      return;
    default:
      Answer(action.call, StatusOf(action.answer, call->second.session, action.owner));
  }
}

// The call has a use. Tells its holder why the work has ended, if it has.
void DriverCore::EndUseOf(const EndCall& action) {
  using enum fleet::Answer;
  if (action.answer == kAttached || action.answer == kCommitWaits || action.answer == kReplay ||
      action.answer == kCommitted || action.answer == kClosed) {
    return;
  }
  const SessionKey* session = SessionOf(*event_);
  const std::shared_ptr<GivenUse> use = session == nullptr ? nullptr : UseOf(*session);
  if (use == nullptr || use->call != action.call) return;
  EndUse(*use, StatusOf(action.answer, use->session, action.owner));
}

absl::Duration DriverCore::TimeOf(TimerKind kind) const {
  const FleetTimes& times = options_.times;
  switch (kind) {
    case TimerKind::kPeerAnswer:
      return times.peer_answer;
    case TimerKind::kGiving:
      return times.giving;
    case TimerKind::kCaches:
      return times.caches;
    case TimerKind::kCommit:
      return times.commit;
    case TimerKind::kRetry:
      return times.retry;
    case TimerKind::kResidency:
      break;
  }
  return times.residency;
}

void DriverCore::Do(const SetTimer& action) {
  timers_->Set(MonotonicTime::Now() + TimeOf(action.kind),
               [this, fired = TimerFired{action.session, action.timer}] {
                 (void)Post([this, fired] { Handle(fired); });
               });
}

void DriverCore::Do(const Exit& action) { exit_ = action; }

}  // namespace longstream::fleet
