// The turns of a session that have an id: their states and, for later calls, their answers.
#ifndef LONGSTREAM_SERVICE_SERVING_TURNS_SESSION_TURNS_H_
#define LONGSTREAM_SERVICE_SERVING_TURNS_SESSION_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_journal.h"
#include "service/fleet/session_gate.h"
#include "service/host_memory/host_memory.h"
#include "service/models/served_model.h"
#include "service/serving/log/place.h"
#include "service/serving/log/session_log.h"
#include "service/serving/log/turn_codec.h"
#include "service/serving/turns/turn_use.h"
#include "service/sessions/session.h"
#include "service/sessions/session_id.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// The 128 bits of a turn's id, which names the turn in its session.
using TurnId = SessionId;

enum class TurnState {
  kStarted,     // is running, or was rolled back
  kCommitting,  // has ended, and its commit is not durable yet
  kCommitted,   // its tokens are part of the session
  kAbandoned,   // was cancelled, or another turn was committed in its place
};

// A turn at one moment.
struct TurnView {
  TurnId id;
  TurnState state = TurnState::kStarted;
  bool running = false;
  uint64_t start_position = 0;
  uint64_t position = 0;  // after the turn; 0 unless it was committed
  FinishReason reason = FinishReason::kNone;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  absl::Time start_time;
  absl::Time end_time = absl::InfiniteFuture();
};

class TurnEntry;

// Thread-safe; no function waits for a turn. Only Look, ReadCommitted and List read the store, and
// block meanwhile.
//
// A turn whose id the client chose stays as long as the session, with its answer. A turn whose id
// the server drew stays in the store, if the session is there, and in the history to which the
// session can return; in memory it has a record only while it runs. A turn that was never admitted
// leaves nothing behind.
//
// If the session is in the store, so are its turns: a turn is STARTED there before its reader gets
// an event, and COMMITTED before its reader gets the end. Then answers are not kept in memory. If a
// commit takes longer than Stored::commit_timeout, the reader gets UNAVAILABLE; the turn goes on to
// wait, and a later call can attach to it.
class SessionTurns : public std::enable_shared_from_this<SessionTurns> {
 public:
  // The place of the session in the store.
  struct Stored {
    store::SessionStore* store = nullptr;  // nullptr: the session lives in memory
    std::shared_ptr<SessionLog> log;
    ModelIdentity model;
    // The session ends when no turn has been committed for this long, unless its properties have
    // another ttl.
    absl::Duration ttl = absl::InfiniteDuration();
    // A reader waits for a commit no longer than this.
    absl::Duration commit_timeout = absl::InfiniteDuration();
    // The thread of the store may hold the turns for a moment longer than the registry of models
    // exists.
    std::shared_ptr<HostMemory> host_memory{};
    // Of a session that a fleet shares: changes outside of turns pass it. nullptr: there is none.
    fleet::SessionGate* gate = nullptr;
  };

  // The end of the session's history.
  struct Head {
    store::TurnNumber number = store::kNoTurn;  // the last turn, in the store
    std::optional<TurnId> id;                   // of this turn
    uint64_t position = 0;
    LoggedProperties properties{};         // if the session is in the store
    std::vector<TurnOfHistory> history{};  // if it is not
  };
  // A place to which the session can return, and what it is there.
  struct PlaceFound {
    Head head;
    SessionState state;
    std::string read_anew{};  // as RestoredSession's
  };

  // Counts its memory as that of the session.
  explicit SessionTurns(const std::shared_ptr<Session>& session, Stored stored);

  bool durable() const { return stored_.store != nullptr; }
  const Stored& stored() const { return stored_; }
  // Only while the caller holds the session's lease, no other thread changes it.
  Head head() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The session has got the history that ends here: it was restored, forked or rewound.
  // REQUIRES: the caller holds the session's lease.
  void SetHead(Head head) ABSL_LOCKS_EXCLUDED(mutex_);
  // One more with each change of the session.
  uint64_t version() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The session ends when no turn has been committed for this long. REQUIRES: durable().
  absl::Duration ttl() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the members that the session itself does not know.
  void Describe(SessionView* view) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Finds a place of a session that is not in the store. `state`: of the session.
  // NOT_FOUND: the session has no such turn. INVALID_ARGUMENT: the position is behind its end.
  // FAILED_PRECONDITION: the turn is not committed, or the session's history does not have it any
  // more.
  absl::StatusOr<PlaceFound> FindInMemory(const Place& place, const SessionState& state,
                                          const ServedModel& model) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A turn that was committed. `answer` is nullptr for an Append.
  struct Committed {
    TurnEnd end;
    std::string digest;
    std::shared_ptr<const Answer> answer;
  };

  // A turn that had started and was not committed.
  struct Lost {
    uint64_t seed = 0;
    std::optional<LoggedStart> start;  // if the turn is read from the store

    // The request goes on with the values with which the turn started, whatever the defaults are
    // now.
    void GoOnAs(TurnRequest* request) const;
    // The time that the template saw when the turn started.
    std::optional<std::tm> TimeOfMessages() const;
  };

  // How a request relates to the turns of the session.
  struct Found {
    // New or lost turns: the caller runs the turn, with this entry as its journal.
    std::shared_ptr<TurnEntry> entry;
    std::optional<Lost> lost;
    // Running turns: the caller attaches to its stream.
    std::shared_ptr<Turn> running;
    // Committed turns: the caller gets the same answer, which ReadCommitted returns.
    bool committed = false;
  };
  // A turn's id. If the session has the turn, its record is in memory.
  struct Looked {
    TurnId id;
    bool known = false;  // the session had the turn
  };
  // Looks the turn up, in the store too. Returns the errors of the store.
  absl::StatusOr<Looked> Look(const TurnId& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // As Look. Absent: the turn may be in the store.
  std::optional<Looked> LookInMemory(const TurnId& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // As Look, for a turn that the store has as started, whatever this object knows of it.
  absl::StatusOr<Looked> LookStarted(const TurnId& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the turn runs, here and now.
  bool IsRunning(const TurnId& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsRunningOrCommitted(const TurnId& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Finds the turn, or begins it. `digest`: the SHA-256 of the request. Empty if it is known only
  // later, for an Append (TurnEntry::SetDigest).
  // ALREADY_EXISTS: the id is that of another request. ABORTED: another call is starting the turn,
  // another Append with this id is running, or the turn, whose id the server had drawn, has ended
  // since it was looked up. FAILED_PRECONDITION: the turn was abandoned.
  absl::StatusOr<Found> Begin(const Looked& looked, TurnKind kind, const std::string& digest)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn that Begin has found committed. Returns the errors of the store.
  absl::StatusOr<Committed> ReadCommitted(const TurnId& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Begins a turn with an id that the server has drawn.
  std::shared_ptr<TurnEntry> BeginDrawn(TurnKind kind, const TurnId& id = TurnId::Random())
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Cancels the turn, which is abandoned unless its request keeps what was delivered. Calls
  // `cancelled` when the turn has ended, on an engine thread or at once. Afterwards the caller
  // wakes the engine of the session. False: there is no record of the turn in memory; `cancelled`
  // is not called.
  // `use`: the change of a session that a fleet shares, if the turn does not run.
  using Cancelled = std::function<void(absl::StatusOr<TurnView>)>;
  bool Cancel(const TurnId& id, const Cancelled& cancelled,
              const std::shared_ptr<fleet::SessionUse>& use = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the running turn with this status; the session keeps nothing of it. Afterwards the caller
  // wakes the engine. A commit that the store is making goes on.
  void StopRunning(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether no turn is running, and no cancelled one will still change the session in the store.
  bool IsSettled() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The session leaves memory while it is settled: from now on Cancel returns false, and the turn
  // is cancelled where the session is then. False: it is not settled, and nothing has changed.
  // REQUIRES: the caller holds the session's lease.
  bool Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_FOUND: the session has no turn with this id.
  absl::Status NoTurn(const TurnId& id) const;

  // At most `limit` turns from the number `begin` on, in the order in which they started. *next:
  // the number with which the list goes on; 0: there are no further turns. If the session is in the
  // store, these are all its turns there and those that are about to be. Returns the errors of the
  // store.
  absl::StatusOr<std::vector<TurnView>> List(uint64_t begin, size_t limit, uint64_t* next) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // As List, for the session of a row that is not in memory.
  static absl::StatusOr<std::vector<TurnView>> ListOf(store::SessionStore* store,
                                                      const store::SessionRow& session,
                                                      uint64_t begin, size_t limit, uint64_t* next);

 private:
  friend class TurnEntry;

  struct Record {
    TurnView view;
    TurnKind kind = TurnKind::kGenerate;
    bool drawn = false;
    bool admitted = false;
    bool cancelled = false;
    bool abandoning = false;  // the store has not abandoned it yet
    absl::Status stopped;     // of StopRunning
    std::string digest;
    uint64_t seed = 0;
    std::optional<LoggedStart> start;  // of a turn that was read from the store
    store::TurnNumber stored = store::kNoTurn;
    store::TurnNumber parent = 0;  // head_.number when it started
    std::weak_ptr<Turn> turn;      // while it is running
    Committed committed;
    std::vector<Cancelled> waiting;
  };

  // How far the store has got with a running turn. Guarded by mutex_.
  struct Progress {
    int pending = 0;     // changes that were not answered
    absl::Status error;  // of the first change that failed
    std::function<void()> wake;
    // The turn waits for its commit, and its reader at most until then.
    MonotonicTime dismiss_at = MonotonicTime::InfiniteFuture();
  };

  Record& AddRecord(const TurnId& id, TurnKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<TurnEntry> AddRunning(const TurnId& id, TurnKind kind, bool drawn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A turn as its row has it.
  struct StoredTurn {
    TurnView view;
    LoggedStart start;  // unless it was collected
  };
  static absl::StatusOr<StoredTurn> ReadTurn(const store::TurnRow& row);
  // A page of a list, as the store has it.
  struct StoredPage {
    std::vector<TurnView> views;
    std::vector<store::TurnNumber> parents;  // one for each view
    bool is_last = false;
  };
  static absl::StatusOr<StoredPage> ReadPage(store::SessionStore* store, const SessionKey& key,
                                             uint64_t begin, size_t limit, uint64_t* next);
  // Adds the record of a turn that only the store knows. NOT_FOUND: it does not know it either.
  absl::Status ReadRecord(const TurnId& id) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Found> Resume(Record& record, TurnKind kind, const std::string& digest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The state as it is now: a lost turn is abandoned if the head has moved.
  TurnView ViewOf(const Record& record) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // `head`, `position`: of the session's history.
  static TurnView AsItIsNow(TurnView view, store::TurnNumber parent, store::TurnNumber head,
                            uint64_t position);
  // Adds a committed turn to the history of a session that is not in the store.
  void AddToHistory(uint64_t number, const Record& record, const EndedTurn& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<TurnView>> ListStored(uint64_t begin, size_t limit,
                                                   uint64_t* next) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSettledLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  // For TurnEntry.
  absl::Status SetDigest(uint64_t number, const std::string& digest) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetTurn(uint64_t number, const std::shared_ptr<Turn>& turn) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetWake(Progress* progress, std::function<void()> wake) ABSL_LOCKS_EXCLUDED(mutex_);
  // `use`: nullptr: no fleet shares the session, here and below.
  void Start(uint64_t number, const StartedEvent& started, std::shared_ptr<Progress> progress,
             const std::shared_ptr<TurnUse>& use) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(uint64_t number, const EndedTurn& ended, std::shared_ptr<Progress> progress,
           const std::shared_ptr<TurnUse>& use) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<absl::Status> Outcome(uint64_t number, Progress* progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  // Submit changes to the store.
  void SubmitStart(uint64_t number, const std::shared_ptr<Turn>& turn, store::TurnRow row,
                   std::shared_ptr<Progress> progress, std::shared_ptr<TurnUse> use);
  void SubmitCommit(uint64_t number, const EndedTurn& ended, std::string result,
                    std::shared_ptr<Progress> progress, std::shared_ptr<TurnUse> use);
  // The turn of a session that a fleet shares has ended, and the session keeps nothing of it.
  void EndWithoutCommit(uint64_t number, const std::shared_ptr<TurnUse>& use)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks the gate for a use first, if there is a gate. Without a use, the turn stays STARTED.
  void Abandon(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // `answered`: by the store.
  void SubmitAbandon(uint64_t number, std::function<void(const absl::Status&)> answered);
  void Abandoned(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // The store has answered. These run on its thread, or at once.
  void Started(uint64_t number, const std::shared_ptr<Turn>& turn, Progress* progress, TurnUse* use,
               const absl::StatusOr<store::Applied>& applied) ABSL_LOCKS_EXCLUDED(mutex_);
  // `use`: nullptr also if no commit was made.
  void CommitAnswered(uint64_t number, const EndedTurn& ended, Progress* progress, TurnUse* use,
                      const absl::Status& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  // The error for a client whose change was not made.
  absl::Status AsAnswer(const absl::Status& status) const;
  void Answered(Progress* progress, const absl::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The number of a started turn in the store, or why it is not there.
  absl::StatusOr<store::TurnNumber> StoredNumber(uint64_t number) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The turn is part of the session.
  void Commit(uint64_t number, Record& record, const EndedTurn& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The turn is not running any more. Forgets it if nothing refers to it.
  std::vector<Cancelled> Stop(uint64_t number, Record& record, TurnView* view)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionId session_id_;
  const std::weak_ptr<Session> session_;
  const Stored stored_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, Record> records_ ABSL_GUARDED_BY(mutex_);  // by their numbers
  std::map<TurnId, uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 1;
  // The last committed turn: its number in the store. If there is no store, its number in records_,
  // or a new one if the session has returned to it.
  Head head_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;       // if there is no store
  uint64_t num_drawn_ ABSL_GUARDED_BY(mutex_) = 0;     // records whose id the server drew
  uint64_t answer_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all answers
  HostCharge charge_ ABSL_GUARDED_BY(mutex_);
  bool has_left_ ABSL_GUARDED_BY(mutex_) = false;  // Leave has returned true
};

// A turn that a call has begun. If it is destroyed before the engine has ended the turn, the turn
// was refused.
class TurnEntry final : public TurnJournal {
 public:
  TurnEntry(std::shared_ptr<SessionTurns> turns, uint64_t number, TurnId id)
      : turns_(std::move(turns)), number_(number), id_(id) {}
  ~TurnEntry() override {
    use_ = nullptr;  // first: the cancellation of the turn is another use
    if (!ended_) turns_->Release(number_);
  }

  const TurnId& id() const { return id_; }

  // The use that the turn makes of a session that a fleet shares. Call it before the turn starts.
  void SetUse(std::shared_ptr<fleet::SessionUse> use) {
    if (use != nullptr) use_ = std::make_shared<TurnUse>(std::move(use));
  }

  // ALREADY_EXISTS: the turn has run before, for another request.
  absl::Status SetDigest(const std::string& digest) { return turns_->SetDigest(number_, digest); }
  // The turn that is about to be passed to the engine. Cancels it if it was cancelled already.
  // `wake` wakes the engine; it may be called until Outcome has returned a status.
  void SetTurn(const std::shared_ptr<Turn>& turn, std::function<void()> wake) {
    turns_->SetWake(progress_.get(), std::move(wake));
    turns_->SetTurn(number_, turn);
  }

  bool is_logged() const override { return turns_->durable(); }
  void Start(const StartedEvent& started) override {
    turns_->Start(number_, started, progress_, use_);
  }
  void End(const EndedTurn& ended) override {
    ended_ = true;
    turns_->End(number_, ended, progress_, use_);
  }
  std::optional<absl::Status> Outcome() override {
    return turns_->Outcome(number_, progress_.get());
  }
  void Release() override {
    use_ = nullptr;  // as above
    turns_->Release(number_);
  }

 private:
  const std::shared_ptr<SessionTurns::Progress> progress_ =
      std::make_shared<SessionTurns::Progress>();
  const std::shared_ptr<SessionTurns> turns_;
  const uint64_t number_;
  const TurnId id_;
  std::shared_ptr<TurnUse> use_;  // shared with changes of the store; used like ended_
  bool ended_ = false;  // written by the engine thread, before the last pointer to the turn is gone
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TURNS_SESSION_TURNS_H_
