// Rewinds and forks of sessions: they return to a place in the history.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/config/names.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

constexpr const char* kRewound = "the session returned to an earlier place";
constexpr const char* kForkedBefore = "the session was forked at an earlier place";
constexpr const char* kOtherModel = "the session was forked onto another model";

std::string Text(const Place& place) {
  if (place.turn.has_value()) return absl::StrCat(" turn ", place.turn->ToString());
  return place.position.has_value() ? absl::StrCat(" position ", *place.position) : "";
}

// Equal for equal requests of a fork.
std::string OriginOf(const SessionId& source, std::optional<absl::Duration> idle_timeout,
                     const Place& place, std::string_view model) {
  return absl::StrCat("fork ", source.ToString(), " ",
                      idle_timeout.has_value() ? absl::FormatDuration(*idle_timeout) : "default",
                      Text(place), model.empty() ? "" : " model ", std::string(model));
}

absl::Status CheckVersion(std::optional<uint64_t> expected, uint64_t version) {
  if (!expected.has_value() || *expected == version) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("expected_version: the session has version ",
                                                    version, ", the request expects ", *expected));
}

// The caches of a fork at a turn in the store.
void FollowCaches(const Session& source, store::TurnNumber turn, const Session& fork) {
  if (turn == store::kNoTurn) return;
  fork.stored_caches()->Follow(*source.stored_caches(), turn);
  fork.stored_caches()->Reload(turn);
}

// Whether `other` can go on with the tokens of `model`.
absl::Status CheckOtherModel(const ServedModel& model, const ServedModel& other, size_t tokens) {
  if (model.tokenizer().fingerprint() != other.tokenizer().fingerprint()) {
    return absl::FailedPreconditionError(absl::StrCat("model: ", other.name(),
                                                      " has another tokenizer than ", model.name(),
                                                      ", the model of the session"));
  }
  const uint64_t limit = other.backend().info().context_limit;
  if (tokens <= limit) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("model: the context of ", other.name(), " has ",
                                                    limit, " tokens, the session has ", tokens));
}

}  // namespace

void SessionManager::ReadAnew(const std::string& reason, TurnLease* lease) {
  lease->state().feed.Truncate(0);
  SessionCaches& caches = lease->session()->caches();
  const size_t size = lease->state().tokens.size();
  caches.computed_tokens = size > 0 ? size - 1 : 0;
  caches.recompute_reason = reason;
  caches.evicted = caches.restored = false;
  caches.lowest_rewind = caches.prefill_tokens = caches.decode_tokens = 0;
}

LoggedProperties SessionManager::PropertiesOf(const TurnLease& lease,
                                              LoggedProperties source) const {
  LoggedProperties properties = std::move(source);
  if (properties.ttl.has_value()) properties.ttl = std::min(*properties.ttl, options_.max_ttl);
  properties.idle_timeout = lease.session()->View().idle_timeout;
  properties.recompute = lease.state().recompute;
  properties.origin = lease.session()->origin();
  properties.alias = lease.session()->alias();
  return properties;
}

absl::StatusOr<SessionTurns::PlaceFound> SessionManager::FindPlace(const TurnLease& lease,
                                                                   const SessionTurns& turns,
                                                                   const ServedModel& model,
                                                                   const Place& place) const {
  if (!place.given()) return SessionTurns::PlaceFound{turns.head(), lease.state(), ""};
  if (!turns.durable()) return turns.FindInMemory(place, lease.state(), model);
  const SessionTurns::Head head = turns.head();
  store::SessionRow row;
  row.key = turns.stored().log->key();
  row.model = lease.session()->model();
  row.head = head.number;
  absl::StatusOr<RestoredSession> found = RestoreSession(
      RestoringOptions(lease.session()->host_memory()), row, head.properties, model, place);
  if (!found.ok()) return found.status();
  SessionTurns::PlaceFound at;
  at.head.number = found->head;
  if (found->head != store::kNoTurn) at.head.id = found->head_id;
  at.head.position = found->state.tokens.size();
  at.head.properties = std::move(found->properties);
  at.state = std::move(found->state);
  at.read_anew = std::move(found->read_anew);
  return at;
}

void SessionManager::RewindSession(const SessionKey& key, const Place& place,
                                   std::optional<uint64_t> expected_version,
                                   const Opened& rewound) {
  const Opened answer = options_.store == nullptr ? rewound : InTime(rewound);
  if (fleet_ != nullptr && fleet_->Shares(key)) {
    return fleet_->Change(key, answer, [=, this](const Use& use) {
      RewindNow(key, place, expected_version, answer, use);
    });
  }
  RunRead({key.tenant, key.id}, answer, [this, key, place, expected_version, answer] {
    RewindNow(key, place, expected_version, answer, nullptr);
  });
}

void SessionManager::RewindNow(const SessionKey& key, const Place& place,
                               std::optional<uint64_t> expected_version, const Opened& rewound,
                               const Use& use) {
  absl::StatusOr<Leased> leased =
      use == nullptr ? FindAndLease(key) : fleet_->FindAndLease(key, *use);
  if (!leased.ok()) return rewound(leased.status());
  const auto& [session, turns, engine, moves_at] = leased->served;
  auto lease = std::make_shared<TurnLease>(std::move(leased->lease));
  // The session is free before the caller learns of an error.
  const auto refuse = [&](const absl::Status& why) {
    lease->Drop();
    rewound(why);
  };
  // While the lease is held, the session stays on this engine.
  if (absl::Status open = models_->Check(*engine); !open.ok()) return refuse(open);
  absl::Status status = CheckVersion(expected_version, turns->version());
  if (!status.ok()) return refuse(status);
  absl::StatusOr<SessionTurns::PlaceFound> found =
      FindPlace(*lease, *turns, engine->model(), place);
  if (!found.ok()) return refuse(found.status());
  auto at = std::make_shared<SessionTurns::PlaceFound>(*std::move(found));
  const SessionTurns::Head now = turns->head();
  if (at->head.id == now.id && at->head.position == now.position) {
    lease->Drop();
    return rewound(Described(*session));
  }
  if (turns->durable() && at->head.number != store::kNoTurn) {
    session->stored_caches()->Reload(at->head.number);
  }
  const auto go = [this, session = session, turns = turns, lease, at, engine = engine,
                   answer = rewound](const absl::Status& moved) {
    if (!moved.ok()) {
      lease->Drop();
      return answer(moved);
    }
    turns->SetHead(at->head);
    const std::string reason = at->read_anew.empty() ? kRewound : at->read_anew;
    engine->Rewind(std::move(*lease), std::move(at->state), reason,
                   [this, session, answer](const absl::Status& done) {
                     done.ok() ? answer(Described(*session)) : answer(done);
                   });
  };
  if (!turns->durable()) return go(absl::OkStatus());
  turns->stored().log->Submit(
      [at](const store::Fence& fence) -> absl::StatusOr<store::Change> {
        return store::MoveHead{fence, at->head.number, absl::Now(),
                               EncodeProperties(at->head.properties)};
      },
      [pending = Pending(), go, use](const absl::StatusOr<store::Applied>& applied) {
        if (use != nullptr) use->Changed(applied.status());
        go(applied.status());
      });
}

void SessionManager::ForkSession(const SessionKey& source_key, std::optional<SessionId> id,
                                 std::optional<absl::Duration> idle_timeout, Opened opened,
                                 const Place& place, std::string_view model) {
  // A name that no model and no alias can have may be long, and is not copied.
  if (!model.empty()) {
    const absl::Status known = CheckKnown(model);
    const bool may_be_repeat = id.has_value() && CheckName("model", model).ok();
    if (!known.ok() && !may_be_repeat) return opened(known);
  }
  if (options_.store != nullptr) {
    opened = id.has_value() ? InTime(std::move(opened))
                            : InTimeOrClose(source_key.tenant, std::move(opened));
  }
  RunRead({source_key.tenant, source_key.id}, opened,
          [this, source_key, id, idle_timeout, opened, place, model = std::string(model)] {
            ForkNow(source_key, id, idle_timeout, opened, place, model);
          });
}

void SessionManager::ForkNow(const SessionKey& source_key, std::optional<SessionId> id,
                             std::optional<absl::Duration> idle_timeout, Opened opened,
                             const Place& place, std::string_view model) {
  SessionMaking making(source_key.tenant, id, "new_session_id", idle_timeout);
  making.origin = OriginOf(source_key.id, idle_timeout, place, model);
  making.again = [=, this, model = std::string(model)] {
    ForkNow(source_key, id, idle_timeout, opened, place, model);
  };
  // A repeat of a call that has named an alias gets its session, also if the alias was deleted.
  const absl::Status known = model.empty() ? absl::OkStatus() : CheckKnown(model);
  if (!known.ok()) opened = UnlessInUse(known, std::move(opened));
  if (AnswerRepeat(making, opened)) return;
  if (!known.ok()) return opened(known);
  const bool is_shared = fleet_ != nullptr && fleet_->Shares(source_key);
  absl::StatusOr<Leased> leased =
      is_shared ? fleet_->LeaseToRead(source_key) : FindAndLease(source_key);
  if (!leased.ok()) return opened(leased.status());
  TurnLease& lease = leased->lease;
  const SessionTurns& source_turns = *leased->served.turns;
  // While the lease is held, the source stays on this engine.
  const std::shared_ptr<Engine>& engine = leased->served.engine;
  // The source is free before the caller learns of an error.
  const auto refuse = [&](const absl::Status& why) {
    lease.Drop();
    opened(why);
  };
  making.durable = source_turns.durable();
  if (absl::Status open = models_->Check(*engine); !open.ok()) return refuse(open);
  absl::StatusOr<SessionTurns::PlaceFound> at =
      FindPlace(lease, source_turns, engine->model(), place);
  if (!at.ok()) return refuse(at.status());
  // The model of a fork reads the history up to the place as one prompt.
  const auto chosen = options_.aliases->Choose(
      model, making.new_id, {.prompt_tokens = at->state.tokens.size()}, Served());
  const absl::StatusOr<FoundEngine> other =
      model.empty() ? FoundEngine{engine, nullptr} : FindNamed(model, chosen);
  if (!other.ok()) {
    CountSession(chosen, other.status());
    return refuse(other.status());
  }
  making.ComeBy(chosen, model.empty() ? lease.session()->alias() : "");
  auto forking = std::make_shared<SessionForking>();
  forking->engine = other->engine;
  forking->has_other_model = other->engine != engine;
  forking->is_whole = !place.given() && !forking->has_other_model;
  if (!forking->has_other_model && !engine->model().backend().plugin().Can(LS_CAP_FORK)) {
    return refuse(absl::UnimplementedError(
        absl::StrCat("the backend of model ", engine->model().name(), " cannot fork a session")));
  }
  if (forking->has_other_model) {
    absl::Status fits =
        CheckOtherModel(engine->model(), other->engine->model(), at->state.tokens.size());
    if (!fits.ok()) return refuse(fits);
    making.forked_onto = ModelIdentity::Of(other->engine->model());
  }
  absl::StatusOr<Made> made = MakeSession(other->engine, making, &at->state);
  if (!made.ok()) {
    lease.Drop();
    if (absl::IsAlreadyExists(made.status()) && AnswerRepeat(making, opened)) return;
    // Another version may have the name now.
    if (other->engine->unloading()) {
      return ForkNow(source_key, id, idle_timeout, std::move(opened), place, model);
    }
    CountSession(chosen, made.status());
    return opened(made.status());
  }
  TurnLease& target = made->lease;
  target.session()->set_forked_from(source_key.id);
  if (making.durable) FollowCaches(*lease.session(), at->head.number, *target.session());
  target.state().recompute = at->state.recompute;
  SessionTurns::Head& head = at->head;
  head.properties = PropertiesOf(target, std::move(head.properties));
  if (const auto& onto = making.forked_onto) head.properties.GoOnWith(*onto, head.number, false);
  made->turns->SetHead(head);
  forking->source = std::make_shared<TurnLease>(std::move(lease));
  forking->target = std::make_shared<TurnLease>(std::move(target));
  forking->at = *std::move(at);
  Engine::Done done = WhenMade(forking->target->session(), other->hold, std::move(opened));
  making.durable ? ForkStored(forking, *made->turns, std::move(done)) : Fork(forking, done);
}

void SessionManager::ForkStored(const std::shared_ptr<SessionForking>& forking,
                                const SessionTurns& turns, Engine::Done done) {
  AddToStore(*forking->target, turns,
             [this, forking, done = std::move(done)](const absl::Status& status) {
               if (status.ok()) return Fork(forking, done);
               forking->target->session()->Close();
               forking->target->Drop();
               forking->source->Drop();
               done(status);
             });
}

void SessionManager::Fork(const std::shared_ptr<SessionForking>& forking,
                          const Engine::Done& done) {
  Engine& engine = *forking->engine;
  TurnLease& target = *forking->target;
  if (forking->has_other_model) {
    forking->source->Drop();
    target.state() = std::move(forking->at.state);
    // No engine knows the session yet, so this thread may use its caches.
    ReadAnew(kOtherModel, &target);
    return engine.Open(std::move(target), done);
  }
  if (forking->is_whole) {
    return engine.Fork(std::move(*forking->source), std::move(target), done);
  }
  const std::string& read_anew = forking->at.read_anew;
  engine.ForkAt(std::move(*forking->source), std::move(target), std::move(forking->at.state),
                read_anew.empty() ? kForkedBefore : read_anew, done);
}

}  // namespace longstream
