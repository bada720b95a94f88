// Two session managers that share a store, as replicas of a fleet do.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_REPLICAS_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_REPLICAS_H_

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/fleet/scripted_gate.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/sessions/store/held_store.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr SessionId kId{1, 2};
inline constexpr TurnId kTurn{7, 1};
inline constexpr TurnId kNext{7, 2};

// The result of a turn.
struct FleetTurn {
  absl::Status refused;  // before it was started
  TurnEnd end;
  std::vector<int32_t> tokens;
  NewTurn::How how = NewTurn::How::kNew;

  absl::Status status() const { return refused.ok() ? end.status : refused; }
};

// The two have the same models, and engines.
class Replicas : public testing::Test {
 protected:
  struct Replica {
    Replica(const ModelRegistry* models, store::SessionStore* store, store::CommitQueue* commits,
            const std::string& name, absl::Duration engine_patience = absl::Seconds(5),
            absl::Duration look_period = absl::Minutes(1))
        : gate(store),
          sessions(models, OptionsFor(store, commits, name, engine_patience, look_period)) {}

    SessionManager::Options OptionsFor(store::SessionStore* store, store::CommitQueue* commits,
                                       const std::string& name, absl::Duration engine_patience,
                                       absl::Duration look_period) {
      SessionManager::Options options;
      options.engine_patience = engine_patience;
      options.look_period = look_period;
      options.store = store;
      options.commits = commits;
      options.commit_timeout = absl::Hours(1);
      options.gate = &gate;
      options.metrics = &metrics;
      options.owner = name;
      options.restored = [this](const std::shared_ptr<Session>&) { ++restores; };
      return options;
    }

    ServedCopies& copies() { return sessions.fleet()->copies(); }

    // Of session_restores_total{from="peer"}.
    double FromPeers(const std::string& outcome) const {
      return MetricValue(registry, "longstream_session_restores_total",
                         {{"from", "peer"}, {"outcome", outcome}});
    }

    std::atomic<int> restores{0};
    prometheus::Registry registry;
    SessionMetrics metrics{&registry, /*host_limit=*/0};
    ScriptedGate gate;
    SessionManager sessions;
  };

  explicit Replicas(absl::Duration engine_patience = absl::Seconds(5))
      : engine_patience_(engine_patience) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  }

  static absl::StatusOr<SessionView> Open(Replica& on, const SessionId& id = kId,
                                          Durability durability = Durability::kDefault,
                                          std::optional<absl::Duration> ttl = std::nullopt) {
    return WaitForSession([&](SessionManager::Opened opened) {
      on.sessions.OpenSession("", "m", id, std::nullopt, std::move(opened),
                              {.durability = durability, .ttl = ttl});
    });
  }
  static absl::StatusOr<SessionView> Show(Replica& on, const SessionId& id = kId) {
    return WaitForSession([&](SessionManager::Opened shown) {
      on.sessions.ShowSession({"", id}, std::move(shown));
    });
  }
  static absl::StatusOr<NewTurn> Load(Replica& on, std::optional<TurnId> id = std::nullopt,
                                      const SessionId& session = kId) {
    absl::StatusOr<NewTurn> turn = absl::UnknownError("not called");
    absl::Notification done;
    on.sessions.LoadTurn({"", session}, id, [&](absl::StatusOr<NewTurn> loaded) {
      turn = std::move(loaded);
      done.Notify();
    });
    done.WaitForNotification();
    return turn;
  }
  static absl::StatusOr<TurnView> Cancel(Replica& on, const TurnId& turn) {
    return Cancel(on, turn, &SessionManager::CancelTurn);
  }
  static absl::StatusOr<TurnView> CancelRunning(Replica& on, const TurnId& turn) {
    return Cancel(on, turn, &SessionManager::CancelRunning);
  }
  static absl::StatusOr<TurnView> Cancel(Replica& on, const TurnId& turn,
                                         void (SessionManager::*cancel)(const SessionKey&,
                                                                        const TurnId&,
                                                                        SessionTurns::Cancelled)) {
    absl::StatusOr<TurnView> result;
    absl::Notification done;
    (on.sessions.*cancel)({"", kId}, turn, [&](absl::StatusOr<TurnView> view) {
      result = std::move(view);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  static absl::StatusOr<SessionView> RewindTo(Replica& on, uint64_t position) {
    return WaitForSession([&](SessionManager::Opened rewound) {
      Place place;
      place.position = position;
      on.sessions.RewindSession({"", kId}, place, std::nullopt, rewound);
    });
  }
  static absl::StatusOr<SessionView> Fork(Replica& on, const SessionId& id) {
    return WaitForSession([&](SessionManager::Opened opened) {
      on.sessions.ForkSession({"", kId}, id, std::nullopt, std::move(opened));
    });
  }

  // Starts a turn with this id. `refused`: set to the error.
  static TurnHandle Begin(absl::StatusOr<NewTurn> turn, const TurnId& id, uint64_t max_tokens,
                          FleetTurn* result) {
    result->refused = turn.status();
    if (!turn.ok()) return {};
    const absl::StatusOr<NewTurn::How> how = turn->Name(id, TurnKind::kGenerate, "digest");
    result->refused = how.status();
    if (!how.ok()) return {};
    result->how = *how;
    if (*how == NewTurn::How::kAttached) {
      TurnHandle running = turn->Running();
      EXPECT_TRUE(running.Attach({}, nullptr).ok());
      return running;
    }
    if (*how == NewTurn::How::kReplayed) {
      const absl::StatusOr<SessionTurns::Committed> answer = turn->AnswerReader()();
      result->refused = answer.status();
      if (!answer.ok()) return {};
      TurnHandle replay = turn->Replay(*answer);
      EXPECT_TRUE(replay.Attach({}, nullptr).ok());
      return replay;
    }
    result->refused = turn->Lease();
    if (!result->refused.ok()) return {};
    SessionTurnRequest request = Generate(nullptr, "text", max_tokens);
    request.outlives_reader = true;
    request.resume_window = absl::Hours(1);
    TurnHandle handle = turn->Make(request, nullptr);
    result->refused = turn->Start(handle);
    return result->refused.ok() ? handle : TurnHandle();
  }
  static void ReadToEnd(TurnHandle turn, FleetTurn* result) {
    while (true) {
      const TurnStream::Item item = turn.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) {
        result->end = *end;
        return;
      }
      const auto* event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) {
        absl::SleepFor(absl::Microseconds(100));
      } else if (const auto* delta = std::get_if<DeltaEvent>(event)) {
        result->tokens.insert(result->tokens.end(), delta->tokens.begin(), delta->tokens.end());
      }
    }
  }
  FleetTurn Run(Replica& on, const TurnId& id, uint64_t max_tokens = 10,
                const SessionId& session = kId) {
    FleetTurn result;
    TurnHandle handle = Begin(Load(on, id, session), id, max_tokens, &result);
    if (handle) ReadToEnd(handle, &result);
    return result;
  }
  // The tokens of turns that nobody disturbs, in another session.
  std::vector<std::vector<int32_t>> Undisturbed(const std::vector<TurnId>& turns,
                                                uint64_t max_tokens = 10) {
    constexpr SessionId kOther{9, 9};
    EXPECT_TRUE(Open(a_, kOther).ok());
    std::vector<std::vector<int32_t>> tokens;
    for (const TurnId& turn : turns) tokens.push_back(Run(a_, turn, max_tokens, kOther).tokens);
    a_.gate.TakeEvents();
    return tokens;
  }

  // Another replica takes the session, or keeps it, with another epoch.
  void Take(const std::string& owner, const SessionId& session = kId) {
    const absl::StatusOr<store::SessionRow> row = store_->Session({"", session});
    ASSERT_TRUE(row.ok()) << row.status();
    const store::Change change = store::ChangeOwner{
        {row->key, row->epoch, row->version}, owner, store::OwnerCondition::kNone};
    const auto results = store_->Apply({&change, 1});
    ASSERT_TRUE(results[0].ok()) << results[0].status();
  }
  store::SessionRow Row() {
    const absl::StatusOr<store::SessionRow> row = store_->Session({"", kId});
    EXPECT_TRUE(row.ok()) << row.status();
    return row.value_or(store::SessionRow());
  }
  store::TurnState StateOf(const TurnId& turn) {
    const absl::StatusOr<store::TurnRow> row = store_->Turn({"", kId}, turn);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() ? row->state : store::TurnState::kCollected;
  }

  const absl::Duration engine_patience_;
  const TemporaryDirectory directory_;
  MinimalModel model_;
  const std::unique_ptr<store::HeldStore> store_ = std::make_unique<store::HeldStore>(
      *store::SqliteStore::Open(directory_.string() + "/store", {}));
  store::CommitQueue commits_{store_.get(), store::CommitQueue::Options{}};
  ModelRegistry models_{{model_.plugins(), model_.host(), model_.registry(), {}},
                        {model_.Source(R"({"step_delay_us":500})")},
                        nullptr};  // so that long turns run for as long as a test
  Replica a_{&models_, store_.get(), &commits_, "a/1", engine_patience_};
  Replica b_{&models_, store_.get(), &commits_, "b/2", engine_patience_};
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_REPLICAS_H_
