// The world of one seed: see simulation.h.
#ifndef LONGSTREAM_TESTS_FLEET_SIMULATED_WORLD_H_
#define LONGSTREAM_TESTS_FLEET_SIMULATED_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "service/sessions/fleet/ownership.h"
#include "tests/fleet/model_store.h"
#include "tests/fleet/simulation.h"
#include "tests/fleet/test_replica.h"

namespace longstream::fleet {

inline constexpr Micros kMillisecond = 1000;
inline constexpr Micros kSecond = 1000 * kMillisecond;
inline constexpr Micros kLeaseTtl = 2 * kSecond;

// SplitMix64: small, fast and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // From `low` to `high`, both included.
  int64_t Between(int64_t low, int64_t high);
  bool Chance(double probability);

 private:
  uint64_t state_;
};

class SimulatedWorld {
 public:
  explicit SimulatedWorld(const SimulationOptions& options);
  SimulationResult Run();

 private:
  // How often things go wrong. Drawn for each seed, so that some seeds have many faults of one
  // kind.
  struct Plan {
    double lose = 0;         // a message between replicas, or a call
    double repeat = 0;       // a message between replicas
    double slow = 0;         // a message takes up to half a second
    double unknown = 0;      // of a transaction
    double fail_read = 0;    // of a row
    double fail_turn = 0;    // the model fails
    double cancel_turn = 0;  // the client cancels it
    double withdraw = 0;     // a request, when its transaction could be made
    double crash_step = 0;   // after an event
    Micros crash_every = 0;  // 0: never
    Micros pause_every = 0;
    Micros drain_every = 0;
    Micros restart_every = 0;  // of the database
    Micros cut_every = 0;      // a replica is cut off from the others
    Micros evict_every = 0;
    Micros stall_every = 0;  // all outcomes are unknown for a while
    double changes = 0;      // before a turn
    double refuse = 0;       // a transaction that is not wrong
    bool full_store = false;
    bool redirect = false;
  };

  struct Node {
    int id = 0;
    int incarnation = 0;
    std::optional<TestReplica> replica{};  // absent: it is down
    double clock_rate = 1;                 // of its timers
    Micros paused_until = 0;
    Micros cut_until = 0;
    Micros lease_end = 0;  // as the replica reckons
    bool draining = false;
    bool grace_over = false;
  };

  enum class Kind { kTurn, kChange, kClose };
  struct Step {
    Kind kind = Kind::kTurn;
    TurnId turn;
  };
  struct Client {
    SessionKey session;
    std::vector<Step> steps{};
    size_t next = 0;
    CallId call = 0;  // whose answer it waits for
    int node = 0;     // where it goes first
    bool sticky = true;
    bool stubborn = false;  // it never goes elsewhere, unless it is told to
    Micros patience = 0;    // then it sends its turn again, with the same id
  };
  struct Call {
    size_t client = 0;
    Kind kind = Kind::kTurn;
    TurnId turn;
    int node = -1;  // where it is open; -1: nowhere
  };

  // Something that happens later. `node`: only if this incarnation runs then.
  struct Item {
    Micros at = 0;
    uint64_t sequence = 0;
    int node = -1;
    int incarnation = 0;
    std::function<void()> run{};

    bool operator>(const Item& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };

  // simulated_world.cc
  void DrawPlan();
  void After(Micros delay, std::function<void()> run);
  void AfterAt(const Node& node, Micros delay, std::function<void()> run);
  void RunNext();
  void Handle(Node& node, const Event& event);
  void Do(Node& node, const Effects& effects);
  void Do(Node& node, const Effect& effect, const Transact& transact);
  void Do(Node& node, const Effect& effect, const ReadRow& read);
  void Do(Node& node, const Effect& effect, const fleet::Send& send);
  void Do(Node& node, const Effect& effect, const SendCaches& send);
  void Do(Node& node, const Effect& effect, const ReceiveCaches& receive);
  void Do(Node& node, const Effect& effect, const RunTurn& run);
  void Do(Node& node, const Effect& effect, const StopTurn& stop);
  void Do(Node& node, const Effect& effect, const AdvanceCopy& advance);
  void Do(Node& node, const Effect& effect, const KeepCopy& keep);
  void Do(Node& node, const Effect& effect, const DropCopy& drop);
  void Do(Node& node, const Effect& effect, const ShowTurn& show);
  void Do(Node& node, const Effect& effect, const EndCall& end);
  void Do(Node& node, const Effect& effect, const SetTimer& timer);
  void Do(Node& node, const Effect& effect, const Exit& exit);
  void Trace(const std::string& words);
  // A time by the clock of the node.
  static Micros Scaled(const Node& node, Micros time) {
    return static_cast<Micros>(static_cast<double>(time) * node.clock_rate);
  }
  Micros NetworkDelay();
  Micros StoreTime() const { return now_ + store_offset_; }
  bool Faulty() const { return now_ < faults_end_; }
  // Whether a message between the two gets through. Counts those that do not.
  bool Passes(const Node& a, const Node& b);
  void CheckEnd();

  // simulated_faults.cc
  void Start(Node& node);
  void Stop(Node& node);
  void Crash(Node& node);
  void RestartLater(Node& node);
  void Renew(Node& node);
  void ScheduleFaults();
  void Repeat(Micros every, const std::function<void()>& fault);
  void CrashOne();
  void PauseOne();
  void DrainOne();
  void CutOne();
  void EvictOne();
  void RestartStore();
  void StallStore();
  void Heal();
  Node& AnyNode();

  // simulated_clients.cc
  void MakeClients();
  void Send(size_t client);
  void SendSoon(size_t client, Micros most);
  void Arrive(Node& node, CallId id);
  void Answered(CallId id, Answer answer, const ReplicaName& owner);
  bool AllDone() const;

  const SimulationOptions options_;
  Random random_;
  Plan plan_;
  ModelStore store_;
  std::vector<Node> nodes_;
  std::vector<Client> clients_;
  std::map<CallId, Call> calls_;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> items_;
  Micros now_ = 0;
  Micros faults_end_ = 0;
  Micros store_down_until_ = 0;
  Micros store_stalls_until_ = 0;
  Micros store_offset_ = 0;
  uint64_t sequence_ = 0;
  CallId last_call_ = 0;
  SimulationCounts counts_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_SIMULATED_WORLD_H_
