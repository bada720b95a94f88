// Makes a session from the bytes of a file.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_IMPORT_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_IMPORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"
#include "service/host_memory/host_memory.h"
#include "service/models/backend_model.h"
#include "service/sealing/unsealer.h"
#include "service/security/tenants/tenant.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/file/file_records.h"
#include "service/serving/file/imported_log.h"
#include "service/serving/log/restore.h"
#include "service/serving/session_files.h"
#include "service/serving/transfer_places.h"
#include "service/sessions/session.h"
#include "service/sessions/store/changes.h"

namespace longstream {

// A file is written piece by piece; the session is there when Finish has answered, or not at all.
// The caches are read while the file arrives, beside the model's steps. If there is no memory for
// them, or if they are of another layout, the session is made without them, as an evicted one.
//
// Used by one thread at a time. Each call answers once, on this or on another thread, before the
// next call. The callbacks must not block.
class SessionImport : public std::enable_shared_from_this<SessionImport> {
 public:
  // The wishes of the request; absent ones are as in the file.
  struct Wanted {
    std::optional<SessionId> id;
    std::string model;  // or an alias; empty: the model of the file
    std::optional<absl::Duration> idle_timeout;
  };
  // The service that the session becomes part of. Outlives the import.
  struct Service {
    std::shared_ptr<const AliasTable> aliases;
    // Finds the engine of a model. A swap does not unload it while `hold` exists. Errors as for
    // ModelRegistry::Find.
    std::function<absl::StatusOr<std::shared_ptr<Engine>>(std::string_view model,
                                                          std::shared_ptr<void>* hold)>
        find_model;
    std::shared_ptr<Tenant> tenant;        // whose session it will be
    std::shared_ptr<TransferPlace> place;  // counts the import and its caches
    RestoreOptions restoring;              // as for sessions from the store
    absl::Duration max_idle_timeout;
    // The longest of a file that has one; `ttl` if it has none.
    absl::Duration max_ttl;
    absl::Duration ttl;
    SessionFiles files;
    // Looks whether the id is in use, and calls `checked` on another thread or at once.
    // ALREADY_EXISTS: it is.
    std::function<void(const SessionId& id, std::function<void(absl::Status)> checked)> check_id;
    // Makes the session durable. `done` gets the epoch and the version of its row.
    std::function<void(store::ImportSession change,
                       std::function<void(absl::StatusOr<store::Fence>)> done)>
        commit;
    // Restores the durable session, and gives it the caches if `import` is valid and the session is
    // still at `made`.
    std::function<void(const store::Fence& made, std::shared_ptr<Engine> engine,
                       SnapshotImport import,
                       std::function<void(absl::StatusOr<SessionView>)> done)>
        restore;
  };

  SessionImport(Service service, Wanted wanted);
  ~SessionImport();
  SessionImport(const SessionImport&) = delete;
  SessionImport& operator=(const SessionImport&) = delete;

  // Takes the next bytes of the file, which may be sealed. After an error, nothing may be called
  // any more. INVALID_ARGUMENT, DATA_LOSS: the file is wrong or damaged; a sealed one that does not
  // open is INVALID_ARGUMENT. FAILED_PRECONDITION: another model made it. ALREADY_EXISTS: the
  // session's id is in use. Also returns the errors of ModelRegistry::Find, of the host's memory
  // and of the backend.
  using Done = std::function<void(absl::Status)>;
  void Write(std::string_view bytes, Done done);
  // The file has no further bytes. DATA_LOSS: it is not complete. Also returns the errors of Write
  // and of the store.
  using Finished = std::function<void(absl::StatusOr<SessionView>)>;
  void Finish(Finished finished);

  // The call ends: another transfer may begin before this object is destroyed. REQUIRES: no call
  // will be made, and none is running.
  void ReturnPlace() { service_.place->Return(); }

  // Whether turns run on the session's model.
  bool model_is_busy() const { return engine_ != nullptr && engine_->num_turns() > 0; }

 private:
  // Finds out whether the file is sealed.
  absl::Status TakeBegin();
  // Gives bytes of the file to the reader, or, if they are sealed, to the unsealer.
  absl::Status TakeBytes(std::string_view bytes);
  // Gives the next block of a sealed file to the reader. False: there is none yet.
  absl::StatusOr<bool> OpenBlock();
  // Takes records until bytes are missing.
  void TakeRecords(Done done);
  absl::Status TakeRecord(const RecordReader::Record& record);
  // The log is complete: checks it.
  absl::Status CheckLog();
  // The log is right: checks the session's id, then takes memory for the caches, if there are any.
  void CheckId(Done done);
  void BeginCaches(Done done);
  absl::Status WriteCaches(std::string_view piece);
  void Commit(Finished finished);

  const Service service_;
  const Wanted wanted_;
  std::string begin_;  // the first bytes, until they tell whether the file is sealed
  bool has_begun_ = false;
  std::optional<Unsealer> unsealer_;  // of a sealed file
  HostCharge sealed_charge_;          // for bytes that wait in it
  RecordReader reader_;
  ImportedLog log_;
  std::shared_ptr<Engine> engine_;  // set when the log is checked
  std::string alias_;               // that `wanted_` names; empty: it names a model
  std::shared_ptr<void> hold_;      // of the engine
  uint64_t num_read_ = 0;           // tokens that the caches of the log's history have read
  bool awaits_check_ = false;       // of the session's id
  SnapshotImport import_;
  uint64_t caches_read_ = 0;
  bool caches_complete_ = false;
  bool is_complete_ = false;  // the end of the file was read
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_IMPORT_H_
