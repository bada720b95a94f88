// The service without gRPC: opens, forks, closes, expires and finds sessions, and makes turns for
// them. The gRPC handlers translate their calls to it.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/timers.h"
#include "service/metrics/session_metrics.h"
#include "service/security/tenants/tenant.h"
#include "service/security/tenants/tenants.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/caches/cache_keeper.h"
#include "service/serving/engines/engine_uses.h"
#include "service/serving/engines/replaced_versions.h"
#include "service/serving/engines/served_sessions.h"
#include "service/serving/log/restore.h"
#include "service/serving/log/session_history.h"
#include "service/serving/memory/heap_trim.h"
#include "service/serving/model_registry.h"
#include "service/serving/reads/alone_sessions.h"
#include "service/serving/reads/read_queue.h"
#include "service/serving/reads/store_reads.h"
#include "service/serving/session_export.h"
#include "service/serving/session_files.h"
#include "service/serving/session_import.h"
#include "service/serving/session_making.h"
#include "service/serving/session_manager_options.h"
#include "service/serving/transfer_places.h"
#include "service/serving/turns/session_turns.h"
#include "service/serving/turns/turn_handle.h"
#include "service/sessions/ended_sessions.h"
#include "service/sessions/session.h"
#include "service/sessions/session_key.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

class FleetCalls;

// Thread-safe. Only Drain and the destructor block, and, with a store, the const functions that say
// so: another thread calls them (Read). Functions with longer work answer through a callback, which
// runs on an engine thread, a thread that reads the store or at once, and must not block.
//
// Several callers may use one session id at the same time. Each caller gets the same answer as if
// the calls came one after the other:
//   - OpenSession and ForkSession add the new session to the table at once. Until it has its caches
//     it is leased, so a turn on it or a fork of it is ABORTED.
//   - A fork takes the lease of its source. It fails with NOT_FOUND if the source is closed before
//     the copy is made.
//   - CloseSession takes effect at once: no turn, fork or expiry of the session begins after it,
//     and the id is free for another session. A running turn is CANCELLED, and so is a call that is
//     still opening or forking this session.
//   - A call for a session that another call restores from the store waits for it, and then goes on
//     as if the session had been in memory. So does a call for a session that leaves the memory.
//   - An OpenSession or ForkSession with the id of a session that is being closed in the store
//     waits for the end of the close, and then makes a new session.
//   - An OpenSession or ForkSession with an id that is in use gets the session with this id, if an
//     equal call made it.
//   - Exactly one CloseSession succeeds. It answers when the caches are freed.
//
// Each session is its tenant's. Calls name sessions by tenant and id, so for a call the sessions of
// other tenants do not exist: it takes the same path, and does the same work, for them and for ids
// that nobody uses. A tenant that the configuration does not name gets PERMISSION_DENIED when it
// makes a session or a turn, and NOT_FOUND for every session. RESOURCE_EXHAUSTED: what the call
// needs is beyond a quota of the tenant (Tenant).
class SessionManager {
 public:
  using Options = SessionManagerOptions;

  // `models` must outlive the manager. The host's memory of sessions and turns is counted in
  // models->host_memory(), and calls for which it has no room get RESOURCE_EXHAUSTED.
  SessionManager(const ModelRegistry* models, const Options& options);
  // Waits until all callbacks of earlier calls have run.
  ~SessionManager();
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  using Opened = std::function<void(absl::StatusOr<SessionView>)>;
  using Closed = std::function<void(absl::StatusOr<uint64_t> position)>;

  // Opens a session of the tenant. If `id` is absent, the server draws one. If `model` is an alias,
  // the id chooses the model of the session, or `ask` if it is a route. If `idle_timeout` is
  // absent, the default applies. Forks of the session have the same `recompute` and `ttl`.
  //
  // With a store, sessions are durable unless `durability` is kMemory: the answers of OpenSession,
  // ForkSession and CloseSession, and the ends of turns, come when they are in the store. A session
  // is restored when it is used. FAILED_PRECONDITION: kTurn, or a `ttl`, without a store.
  // INVALID_ARGUMENT: a `ttl` with kMemory, or outside of its range. UNAVAILABLE: the store has not
  // answered within Options::commit_timeout, and the change may still be made; an equal repeat
  // finds the session. So do the calls below that change a durable session.
  void OpenSession(const std::string& tenant, std::string_view model, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened,
                   const SessionTerms& terms = {});
  // The fork begins at `place`, on `model` (empty: that of the source). NOT_FOUND,
  // INVALID_ARGUMENT, FAILED_PRECONDITION: as for RewindSession, and the model has another
  // tokenizer or too short a context.
  void ForkSession(const SessionKey& source, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened,
                   const Place& place = {}, std::string_view model = "");
  // Returns to a place. `expected_version`: absent: not checked. Errors as for TurnLease::Take, for
  // SessionTurns::FindInMemory or RestoreSession, and FAILED_PRECONDITION: the session has another
  // version. With a store, answers when the place is durable. REQUIRES: place.given().
  void RewindSession(const SessionKey& key, const Place& place,
                     std::optional<uint64_t> expected_version, const Opened& rewound);
  void CloseSession(const SessionKey& key, Closed closed);

  // Begins to read a session out as a file, a sealed one if `sealed` is set. `exported` is called
  // on another thread or at once. Its reads of the store block. The file has no caches if the
  // tenant's quota of bytes has no room for them. FAILED_PRECONDITION: the session is not in the
  // store, or there are no keys to seal it. ABORTED: a turn of the session is running.
  // RESOURCE_EXHAUSTED: as for TransferPlaces::Take.
  using Exported = std::function<void(absl::StatusOr<std::shared_ptr<SessionExport>>)>;
  void ExportSession(const SessionKey& key, Exported exported, bool sealed = false);
  // Begins to make a durable session from a file. FAILED_PRECONDITION: there is no store.
  // UNAVAILABLE: the server is draining. INVALID_ARGUMENT: as for OpenSession. RESOURCE_EXHAUSTED:
  // as for TransferPlaces::Take.
  absl::StatusOr<std::shared_ptr<SessionImport>> ImportSession(const std::string& tenant,
                                                               const SessionImport::Wanted& wanted);

  // As SessionMetrics::CountTransfer.
  void CountTransfer(const char* op, const absl::Status& status, uint64_t bytes) const;
  // Reads the store if the session is not in memory.
  absl::StatusOr<SessionView> View(const SessionKey& key) const;
  // As View, and says how many bytes the session takes in the store. Answers as Read does, but a
  // session in memory is shown even if the store does not answer.
  void ShowSession(const SessionKey& key, Opened shown);

  // Cancels a turn; calls `cancelled` when it has ended. Errors as for SessionTurns::Cancel.
  // ABORTED with a fleet::OwnerOf: that replica runs a turn, and is asked next. There the function
  // is CancelRunning; ABORTED: the turn does not run here.
  void CancelTurn(const SessionKey& key, const TurnId& id, SessionTurns::Cancelled cancelled);
  void CancelRunning(const SessionKey& key, const TurnId& id, SessionTurns::Cancelled cancelled);
  // The turns of a session, as SessionTurns::List. NOT_FOUND: no such session. Reads the store.
  absl::StatusOr<std::vector<TurnView>> ListTurns(const SessionKey& key, uint64_t begin,
                                                  size_t limit, uint64_t* next) const;
  // The history of a session. Reads the store. Errors as for TurnsInStore. ABORTED: the session is
  // not in the store, and a turn is running. FAILED_PRECONDITION: the model is not served.
  absl::StatusOr<SessionHistory> ReadHistory(const SessionKey& key) const;

  // Notes of sessions in the store. Errors as for store::PutNotes. FAILED_PRECONDITION: the session
  // is not in the store, or there is none. FindNotes reads the store.
  void PutNotes(const SessionKey& key, std::vector<store::NoteRow> notes,
                std::function<void(const absl::Status&)> put);
  absl::StatusOr<store::SessionStore::FoundNotes> FindNotes(
      const std::string& tenant, const std::vector<std::string>& keys) const;

  AliasTable& aliases() const { return *options_.aliases; }
  absl::Duration resume_window() const { return options_.resume_window; }
  absl::Duration client_timeout() const { return options_.client_timeout; }

  // Calls `read`, a function of this object that reads the store, and passes its result on. With a
  // store, another thread calls it when it is the tenant's turn (ReadQueue), and the answer is
  // UNAVAILABLE after Options::commit_timeout.
  template <typename T>
  void Read(const ReadOf& of, std::function<absl::StatusOr<T>()> read,
            std::function<void(absl::StatusOr<T>)> answer) {
    if (options_.store == nullptr) return answer(read());
    answer =
        AnswerInTime(&timers_, CommitTimeout(), std::move(answer), {}, "send the request again");
    const absl::Status taken =
        reads_.Run(of, WeightOf(of.tenant), [read = std::move(read), answer] { answer(read()); });
    if (!taken.ok()) answer(taken);
  }

  // Makes a turn for the session; the caller has to lease and start it. `id`: that the client chose
  // for the turn. Reads the store if the session or the turn is not in memory. NOT_FOUND: no
  // session has this id. UNAVAILABLE: the model has failed.
  absl::StatusOr<NewTurn> TurnOf(const SessionKey& key,
                                 const std::optional<TurnId>& id = std::nullopt) const;
  // As TurnOf, for threads that must not wait for the disk: answers at once if it reads nothing,
  // and otherwise as Read. In a fleet, the session comes to this replica first; errors as for
  // SessionGate. `relayed` is called instead if the turn runs on another replica; empty: ABORTED.
  using Loaded = std::function<void(absl::StatusOr<NewTurn>)>;
  using Relayed = std::function<void(const fleet::Entry& entry)>;
  void LoadTurn(const SessionKey& key, const std::optional<TurnId>& id, Loaded loaded,
                const Relayed& relayed = nullptr);
  // As LoadTurn, for a caller that only reads the tokens of the session.
  void LoadHistory(const SessionKey& key, Loaded loaded);
  // The fleet's calls; nullptr: there is no fleet.
  FleetCalls* fleet() const { return fleet_.get(); }
  // Finds the answer of a turn that NewTurn::Name has found committed. Answers as LoadTurn.
  void LoadAnswer(const NewTurn& turn,
                  std::function<void(absl::StatusOr<SessionTurns::Committed>)> loaded);
  // Makes a turn of the tenant on `model` that has its own session. An alias draws the arm at
  // random, or chooses it for `ask`. Until the turn starts, a swap does not unload the version that
  // it has found. NOT_FOUND, UNAVAILABLE: as for ModelRegistry::Find.
  absl::StatusOr<NewTurn> OwnTurn(const std::string& tenant, std::string_view model,
                                  const RouteAsk& ask = {}) const;
  // The same for a turn that scores a text. UNIMPLEMENTED: the model's backend cannot score.
  absl::StatusOr<NewTurn> ScoreWith(const std::string& tenant, std::string_view model,
                                    const RouteAsk& ask = {}) const;

  // Finds a model whose tokenizer a call needs, without a turn. An alias chooses as for OwnTurn.
  absl::StatusOr<FoundEngine> FindForText(const std::string& tenant, std::string_view model,
                                          const RouteAsk& ask = {}) const;

  // Reads at most most_listed_rows of the store, so a page may have fewer sessions than `limit`.
  SessionPage List(const std::string& tenant, const std::optional<SessionId>& after, size_t limit,
                   const SessionFilter& filter = {}) const;

  // Waits for the calls that read the store, and ends the writing of caches to it
  // (CacheKeeper::Stop). REQUIRES: Drain has returned.
  void StopSaving();

  // ------------------------------------------------------------ models that are unloaded
  //
  // The sessions in memory on each engine, and the calls that are about to begin one or a turn.
  EngineUses& uses() const { return sessions_.uses(); }
  size_t NumSessionsOn(const Engine& engine) const { return uses().of(engine).sessions; }
  // Removes the sessions of an engine from memory. Those in the store stay there: they can be read
  // and closed, and go on when a model of this name is served again. For the others the next calls
  // are NOT_FOUND, and the message says that the model was unloaded (for the latest 4096 sessions).
  // Their running turns are cancelled. A session that is being opened or forked stays: the engine
  // will refuse it.
  void EndSessionsOn(const Engine& engine) ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves the idle sessions of an engine to the present version of the model, which reads their
  // histories anew in their next turns. Sessions stay if there is no such version, or if it has
  // another tokenizer or too short a context.
  // At most 64 sessions of an engine move at a time. A round ends when these have begun, or with
  // the pass.
  void MoveSessions(const Engine& from, MovePass* pass) ABSL_LOCKS_EXCLUDED(mutex_);
  // An operator has replaced this version and moves its sessions: those in the store move when they
  // are read, whatever Options::on_model_change says.
  void MoveStoredSessionsOf(const ServedModel& version);

  // The process has freed memory that the system should get back soon.
  void NoteFreedMemory() const { heap_trim_.NoteWork(); }

  // Timers for anything in the service.
  Timers* timers() { return &timers_; }

  // The calls that wait for the store get kLastCommits after the grace time of a drain.
  static constexpr absl::Duration kLastCommits = absl::Seconds(2);
  // Refuses new sessions and turns with UNAVAILABLE. Waits at most `grace` for running turns, then
  // ends the remaining ones. Blocks until no turn is left, or until the store hangs: kLastCommits
  // after `grace`, its transaction takes that long already. Then the readers of turns that wait for
  // the store get UNAVAILABLE. Other calls that wait for it get that kLastCommits later at the
  // latest, and so do calls that begin after the drain.
  // `grace_over`: called, if it is set, before the remaining turns are ended.
  void Drain(absl::Duration grace, const std::function<void()>& grace_over = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class FleetCalls;
  // Of a session that a fleet shares. nullptr: none does.
  using Use = std::shared_ptr<fleet::SessionUse>;

  // A new session. Another caller may close it at any time; then sessions_ does not have it.
  struct Made {
    TurnLease lease;
    std::shared_ptr<SessionTurns> turns;
  };
  // `source`: the state that the session will be a copy of, or nullptr.
  absl::StatusOr<Made> MakeSession(const std::shared_ptr<Engine>& engine,
                                   const SessionMaking& making, const SessionState* source);
  // If the id is in use, answers the call and returns true: with the session if an equal call made
  // it, otherwise with ALREADY_EXISTS. Also returns true if the call goes on later (RunAfterClose).
  bool AnswerRepeat(const SessionMaking& making, const Opened& opened) ABSL_LOCKS_EXCLUDED(mutex_);
  // If the closed session is still being made, makes the call again after that, and returns true.
  bool RunAfterMaking(const Session& session, const SessionMaking& making, const Opened& opened);
  SessionView Described(const Session& session) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Aliases (session_manager_aliases.cc). NOT_FOUND: neither a model nor an alias has this name.
  absl::Status CheckKnown(std::string_view model) const;
  AliasTable::IsServed Served() const;  // for routes
  // The engine of the arm, or of the model with the name. Errors of FindModel and Chosen::Explain.
  absl::StatusOr<FoundEngine> FindNamed(std::string_view model,
                                        const std::optional<AliasTable::Chosen>& chosen) const;
  // nullptr: the session came by no alias, or the alias does not have its model as an arm now.
  std::shared_ptr<ArmMetrics> ArmOf(const Session& session) const;
  static void CountSession(const std::optional<AliasTable::Chosen>& chosen,
                           const absl::Status& status);
  void CountMade(const Session& session, const absl::Status& status) const;

  // Places (session_manager_places.cc).
  //
  // Finds a place of the leased session, as `model` would go on from it.
  absl::StatusOr<SessionTurns::PlaceFound> FindPlace(const TurnLease& lease,
                                                     const SessionTurns& turns,
                                                     const ServedModel& model,
                                                     const Place& place) const;
  void Fork(const std::shared_ptr<SessionForking>& forking, const Engine::Done& done);
  // Adds the fork to the store first.
  void ForkStored(const std::shared_ptr<SessionForking>& forking, const SessionTurns& turns,
                  Engine::Done done);
  // The properties of a session in the store. `source`: of the session of which it is a fork.
  LoggedProperties PropertiesOf(const TurnLease& lease, LoggedProperties source = {}) const;

  // The engines of models that come and go (session_manager_models.cc). Errors as for
  // ModelRegistry::Find.
  absl::StatusOr<FoundEngine> FindModel(std::string_view model) const;
  // The version on which a stored session goes on: the one that has computed it or to which it was
  // moved, if that is served, otherwise the present one. Reads the store.
  absl::StatusOr<FoundEngine> FindVersionOf(const store::SessionRow& row) const;
  // Finds a session in memory. A session whose model was unloaded is removed from memory: then it
  // is not found, and may be in the store.
  absl::StatusOr<ServedSession> FindServed(const SessionKey& key) const;
  // Removes a session from memory because its model goes; then Close and reads of the store work.
  void EndInMemory(const ServedSession& served) const;
  bool IsBeingMade(const Session& session) const ABSL_LOCKS_EXCLUDED(mutex_);
  static bool CanMove(const ServedSession& served, const Engine& to);
  // Begins to move a session to another version. False: a call uses it.
  // `place`: of EngineUses::BeginMove.
  bool MoveSession(const ServedSession& served, const FoundEngine& to, std::shared_ptr<void> place);
  void MoveStored(std::shared_ptr<TurnLease> lease, const ServedSession& served,
                  const FoundEngine& to, std::shared_ptr<void> place, const Use& use);
  // The engine `from` has given up the session.
  void EndMove(TurnLease lease, const std::shared_ptr<Engine>& from, const FoundEngine& to);
  // The model reads the whole history as one prompt. Only for a session that no engine knows.
  static void ReadAnew(const std::string& reason, TurnLease* lease);
  // A session with its lease.
  struct Leased {
    ServedSession served;
    TurnLease lease;
  };
  // Finds or restores a session and takes its lease. Errors as for FindOrRestore and
  // TurnLease::Take.
  absl::StatusOr<Leased> FindAndLease(const SessionKey& key) const;

  // Runs a call that reads the store before it changes it. The caller has limited the time of
  // `answer`, which gets the error if the call cannot run.
  template <typename Answer>
  void RunRead(const ReadOf& of, const Answer& answer, std::function<void()> call) {
    if (options_.store == nullptr) return call();
    const absl::Status taken = reads_.Run(
        of, WeightOf(of.tenant), [pending = Pending(), call = std::move(call)] { call(); });
    if (!taken.ok()) answer(taken);
  }
  // As RunRead, for the server itself. False: the last call of `running` has not ended.
  bool RunReadAlone(std::atomic<bool>* running, const std::function<void()>& call);
  // The weight of a tenant. 1: the configuration does not name it.
  uint32_t WeightOf(const std::string& tenant) const;
  // The parts of OpenSession, ForkSession, RewindSession, CancelTurn and ExportSession behind
  // RunRead.
  void OpenNow(const std::string& tenant, std::string_view model, std::optional<SessionId> id,
               std::optional<absl::Duration> idle_timeout, Opened opened,
               const SessionTerms& terms);
  void ForkNow(const SessionKey& source_key, std::optional<SessionId> id,
               std::optional<absl::Duration> idle_timeout, Opened opened, const Place& place,
               std::string_view model);
  void RewindNow(const SessionKey& key, const Place& place,
                 std::optional<uint64_t> expected_version, const Opened& rewound, const Use& use);
  void CancelNow(const SessionKey& key, const TurnId& id, const SessionTurns::Cancelled& cancelled,
                 const Use& use);
  void ExportNow(const SessionKey& key, const Exported& exported, bool sealed,
                 const std::shared_ptr<TransferPlace>& place);
  // Cancels a turn that has a record in memory. False: it has none.
  static bool CancelInMemory(const ServedSession& served, const TurnId& id,
                             const SessionTurns::Cancelled& cancelled, const Use& use = nullptr);
  absl::StatusOr<NewTurn> MakeTurn(const ServedSession& served,
                                   const std::optional<SessionTurns::Looked>& looked) const;
  // As FindServed. NOT_FOUND also if the session is leaving memory, or is closed.
  absl::StatusOr<FoundSession> FindInMemory(const SessionKey& key) const;
  // Finds a session, or restores it. NOT_FOUND: there is none. Also returns the errors of
  // RestoreSession, and UNAVAILABLE: its model is loading. Blocks while it reads the store.
  absl::StatusOr<FoundSession> FindOrRestore(const SessionKey& key) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: the caller has the place of row.key in alone_.
  absl::StatusOr<ServedSession> Restore(const store::SessionRow& row) const;
  // The error for a stored session whose model cannot be used. `why`: of ModelRegistry::Find.
  static absl::Status NotServed(const store::SessionRow& row, const absl::Status& why);
  absl::StatusOr<ServedSession> RestoreOn(const std::shared_ptr<Engine>& engine,
                                          const store::SessionRow& row) const;
  // Makes a restored session that no call can find yet. `engine`: of its model.
  absl::StatusOr<ServedSession> Restored(const store::SessionRow& row,
                                         const std::shared_ptr<Engine>& engine) const;
  SessionTurns::Stored StoredOf(const Session& session, const Engine& engine) const;
  // Lets the caches of a durable session be kept in the store. Call it before the engine knows the
  // session.
  void KeepCaches(const std::shared_ptr<Session>& session,
                  const std::shared_ptr<SessionTurns>& turns, std::shared_ptr<Engine> engine) const;
  // INVALID_ARGUMENT: not in the range of the options.
  absl::Status CheckIdleTimeout(absl::Duration timeout) const;
  // Restores a session that was imported, and gives it its caches.
  void RestoreImported(const store::Fence& made, const std::shared_ptr<Engine>& engine,
                       SnapshotImport import, Opened opened);
  // ALREADY_EXISTS: a session has this id. Reads the store.
  absl::Status CheckUnused(const SessionKey& key) const;
  // The part of RestoreImported behind RunRead.
  void RestoreImportedNow(const store::Fence& made, const std::shared_ptr<Engine>& engine,
                          SnapshotImport import, const Opened& opened);
  // Adds a new session to the store, then calls `next` with the outcome.
  void AddToStore(TurnLease& lease, const SessionTurns& turns,
                  std::function<void(const absl::Status&)> next);
  RestoreOptions RestoringOptions(HostMemory* host_memory) const;
  void ReturnStored(const SessionKey& key) const;
  // While the object exists, the session is being closed in the store, and no call restores it.
  // The destructor of the manager waits for it.
  std::shared_ptr<void> Closing(const SessionKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsClosing(const SessionKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // If the session is being closed in the store, makes the call again when that has ended, and
  // returns true. `opened` gets UNAVAILABLE if too many calls wait for it.
  bool RunAfterClose(const SessionMaking& making, const Opened& opened) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes a call again that has waited, unless the server stops: then `opened` gets UNAVAILABLE.
  void RunAgain(const SessionKey& key, const Opened& opened, const std::function<void()>& again);
  // Removes the session from the store, then answers. Keeps `closing` (Closing) until then.
  void RemoveFromStore(const std::shared_ptr<SessionTurns>& turns, uint64_t position,
                       std::shared_ptr<void> closing, Closed closed);
  // Removes a session that could not be made from the store. Another one with its key stays. Keeps
  // `closing` until then.
  void RemoveMade(const std::shared_ptr<SessionTurns>& turns, std::shared_ptr<void> closing);
  // Closes a session in memory, and in the store if it is there too.
  void CloseNow(const std::shared_ptr<Session>& session, Closed closed);
  void CloseStored(const SessionKey& key, Closed closed);
  // `only_expired`: if it has been used since its time passed, it stays: ABORTED.
  void CloseStoredNow(const SessionKey& key, bool only_expired, const Closed& closed);
  // On a thread that reads the store: closes sessions whose time has passed, and counts the others.
  void CloseExpired() ABSL_LOCKS_EXCLUDED(mutex_);
  void CloseExpiredNow();
  void ShowStored();  // sets longstream_sessions{state="stored"} of each model
  absl::StatusOr<SessionView> StoredView(const SessionKey& key) const;
  absl::StatusOr<store::SessionRow> RowOf(const SessionKey& key) const;  // or why there is none
  absl::StatusOr<SessionView> FullView(const SessionKey& key) const;     // with its stored_bytes
  absl::StatusOr<SessionView> ViewOf(const store::SessionRow& row) const;
  void AddStoredViews(const std::string& tenant, const std::optional<SessionId>& after,
                      size_t limit, const SessionFilter& filter, SessionPage* page) const;
  // A change of the store is pending while the object exists; ~SessionManager waits. Capture it
  // first: then the other captures, which may hold sessions, are destroyed before it.
  std::shared_ptr<void> Pending();

  absl::Duration CommitTimeout() const;  // how long a call that begins now may wait for the store
  Opened InTime(Opened opened);          // AnswerInTime with this timeout
  // As InTime, for a new session whose id the server has drawn. If the session is late, nobody
  // knows its id, and it is closed.
  Opened InTimeOrClose(const std::string& tenant, Opened opened);

  // A part of AnswerRepeat, for a session that is only in the store.
  bool AnswerStoredRepeat(const SessionMaking& making, const Opened& opened);

  // Absent: another call has removed it.
  std::optional<ServedSession> Remove(Session& session) const;
  // Returns a callback for the engine. It answers with the session, or removes the session from
  // memory if the engine could not make it. Keeps `hold` until then.
  Engine::Done WhenMade(std::shared_ptr<Session> session, std::shared_ptr<void> hold,
                        Opened opened);
  size_t NumTurns() const;
  // Returns when the engines have done all work that they have been given.
  void FlushEngines() const;
  // Whether the store has been busy with one transaction for kLastCommits.
  bool StoreHangs() const;
  // Removes a closed session from memory and, if there is `closing` (Closing), from the store.
  void Release(const std::shared_ptr<Session>& session, std::shared_ptr<void> closing,
               Closed closed);
  // Runs on the thread expiry_ until the manager is destroyed: sets the metrics, closes sessions
  // whose idle timeout has passed, and gives free memory of the heap back to the system (HeapTrim).
  void ExpireSessions() ABSL_LOCKS_EXCLUDED(mutex_);
  void PublishTenants() const;
  void TrimHeap(MonotonicTime now);

  const ModelRegistry* const models_;
  const Options options_;
  const std::shared_ptr<CacheKeeper> keeper_;  // shared with the sessions; nullptr: no store
  mutable ServedSessions sessions_;
  mutable EndedSessions ended_;
  ReplacedVersions replaced_;
  mutable HeapTrim heap_trim_;
  TransferPlaces transfers_;
  mutable AloneSessions alone_;

  mutable absl::Mutex mutex_;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;                   // changes of the store
  MonotonicTime expired_at_ = MonotonicTime::InfinitePast();  // for the thread expiry_ only
  std::atomic<bool> closing_expired_ = false;                 // CloseExpiredNow runs, or will
  std::atomic<bool> more_expired_ = false;  // CloseExpiredNow has not read all expired rows
  MonotonicTime show_stored_at_ = MonotonicTime::InfinitePast();  // for CloseExpiredNow only
  // Sessions that are being made, and the repeated calls that wait for them.
  std::map<const Session*, std::vector<Opened>> making_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionKey, SessionClosing> closing_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> drained_{false};  // Drain has ended

  Timers timers_;
  StoreReads reads_;
  const std::unique_ptr<FleetCalls> fleet_;  // nullptr: there is no fleet
  std::thread expiry_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_
