// A state of the search of all states (search.h), and the steps that lead from it to others.
#ifndef LONGSTREAM_TESTS_FLEET_SEARCH_STATE_H_
#define LONGSTREAM_TESTS_FLEET_SEARCH_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/sessions/fleet/actions.h"
#include "service/sessions/fleet/events.h"
#include "tests/fleet/model_store.h"
#include "tests/fleet/search.h"
#include "tests/fleet/test_replica.h"

namespace longstream::fleet {

// Something that can happen next.
struct Pending {
  enum class Kind : uint8_t {
    kEvent,     // nothing but the event
    kMessage,   // may be lost
    kCaches,    // may be lost
    kRow,       // the row is read, and the answer arrives
    kTransact,  // the transaction is made; its answer is an event
    kLate,      // nobody waits for the transaction
    kTimer,
    kRetry,
  };
  Kind kind = Kind::kEvent;
  size_t replica = 0;
  int incarnation = 0;
  std::string from{};  // of kCaches; of kTransact and kLate: whose transaction
  Event event = LeaseOver{};
  std::optional<Action> action{};
  Content content = 0;
  std::string bytes{};  // what it is, for the hash
};

// A step from a state. `index`: of the pending thing, the replica or the client.
struct Choice {
  enum class Kind : uint8_t {
    kHappen,
    kLose,
    kUnknown,
    kWithdraw,
    kCancel,
    kCall,
    kCrash,
    kStart,
    kLapse,
    kRenew,
    kDrain
  };
  Kind kind = Kind::kHappen;
  size_t index = 0;
  size_t replica = 0;
};

class SearchState {
 public:
  static constexpr size_t kReplicas = 2;

  // Two replicas that have just started. The first one has made the session.
  explicit SearchState(const SearchBounds& bounds);

  // All that can happen next.
  std::vector<Choice> Choices() const;
  void Take(const Choice& choice);
  std::string Words(const Choice& choice) const;
  bool IsTimer(const Choice& choice) const {
    return choice.kind == Choice::Kind::kHappen &&
           pending_[choice.index].kind >= Pending::Kind::kTimer;
  }
  bool IsUp(size_t replica) const { return replicas_[replica].has_value(); }
  bool AllDone() const;
  const std::string& error() const { return store_.error(); }

  // From now on nothing goes wrong any more.
  void Heal();
  void AppendBytes(std::string* bytes) const;

 private:
  void AddPending(Pending pending);
  void Start(size_t replica);
  void Renew(size_t replica);
  void Happen(const Pending& pending);
  void TakePending(Choice::Kind kind, size_t index);
  void Do(size_t replica, const Effects& effects);
  void Do(size_t replica, const Effect& effect);
  void End(const EndCall& end);
  void Forget(size_t replica);

  ModelStore store_{1};
  std::array<std::optional<TestReplica>, kReplicas> replicas_;
  std::array<int, kReplicas> incarnations_{};
  std::vector<Pending> pending_;
  std::vector<CallId> open_;  // by client; 0: no call is open
  std::vector<bool> done_;    // by client
  CallId last_call_ = 0;
  SearchBounds left_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_SEARCH_STATE_H_
