// A replica for tests of single steps of the ownership of sessions.
#ifndef LONGSTREAM_TESTS_FLEET_OWNERSHIP_FIXTURE_H_
#define LONGSTREAM_TESTS_FLEET_OWNERSHIP_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <variant>

#include "service/sessions/fleet/ownership.h"

namespace longstream::fleet {

inline const SessionKey kKey{"", SessionId{0, 1}};
inline const TurnId kTurn{0, 1};
inline const TurnId kOther{0, 2};
inline constexpr char kSelf[] = "0/1";
inline constexpr char kPeer[] = "1/1";

// A replica whose answers the test plays.
class OwnershipTest : public testing::Test {
 protected:
  explicit OwnershipTest(OwnershipOptions options = {}) : machine_(kSelf, options) {
    Handle(LeaseRenewed{.generation = 1});
  }

  void Handle(const Event& event) { actions_ = machine_.Handle(event); }

  // The last action of this type. Use value(), which fails the test if there is none.
  template <typename T>
  std::optional<T> Find() const {
    std::optional<T> found;
    for (const Action& action : actions_) {
      if (const T* each = std::get_if<T>(&action)) found = *each;
    }
    return found;
  }
  template <typename T>
  bool Has() const {
    return Find<T>().has_value();
  }
  std::optional<Answer> AnswerOf(CallId call) const {
    for (const Action& action : actions_) {
      const auto* end = std::get_if<EndCall>(&action);
      if (end != nullptr && end->call == call) return end->answer;
    }
    return std::nullopt;
  }
  template <typename T>
  std::optional<T> Sent() const {
    std::optional<T> found;
    for (const Action& action : actions_) {
      const auto* send = std::get_if<Send>(&action);
      if (send == nullptr) continue;
      if (const T* message = std::get_if<T>(&send->message)) found = *message;
    }
    return found;
  }

  void Open() { Handle(SessionOpened{kKey}); }
  void Call(CallId call, const TurnId& turn = kTurn) { Handle(TurnArrives{call, kKey, turn}); }
  void Change(CallId call) { Handle(ChangeArrives{call, kKey}); }
  void Row(OwnedRow row) {
    row.open = true;
    Handle(RowRead{kKey, Find<ReadRow>().value().operation, row});
  }
  void NoRow() { Handle(RowRead{kKey, Find<ReadRow>().value().operation, OwnedRow{}}); }
  void Outcome(fleet::Outcome outcome) {
    Handle(Transacted{kKey, Find<Transact>().value().operation, outcome});
  }
  void Withdraw() { Handle(Withdrawn{kKey, Find<Transact>().value().operation}); }
  void TimeOver() { Handle(TimerFired{kKey, Find<SetTimer>().value().timer}); }
  void Ran() { Handle(TurnRan{kKey, run_operation_}); }
  // Runs a turn of an open session up to its commit transaction.
  void RunToCommit(CallId call) {
    Call(call);
    Outcome(fleet::Outcome::kMade);
    run_operation_ = Find<RunTurn>().value().operation;
    Ran();
  }
  static OwnedRow OwnRow(int64_t epoch, int64_t version) {
    return {.owner = kSelf, .epoch = epoch, .version = version, .owner_lives = true};
  }
  // A row of the peer, which lives or not.
  static OwnedRow PeersRow(bool lives) {
    return {.owner = kPeer, .epoch = 3, .version = 9, .owner_lives = lives};
  }
  bool Owns() const {
    const auto found = machine_.sessions().find(kKey);
    return found != machine_.sessions().end() && found->second.owned;
  }

  Ownership machine_;
  Actions actions_;
  Number run_operation_ = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_OWNERSHIP_FIXTURE_H_
