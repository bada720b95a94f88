// Sets and deletes aliases for an operator while the server runs.
#ifndef LONGSTREAM_SERVICE_SERVING_MODELS_ALIAS_ADMIN_H_
#define LONGSTREAM_SERVICE_SERVING_MODELS_ALIAS_ADMIN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/timers.h"
#include "service/config/alias_config.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/model_registry.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// The aliases with which a server starts: those of its configuration, and in their place those that
// operators have set or deleted while it ran. Leaves out rows that cannot be used, and adds a
// sentence for each of them to `problems`, and its name to `refused`, which may be null. `models`:
// of the configuration, or those that the server has.
std::vector<AliasConfig> MergeAliases(const std::vector<AliasConfig>& configured,
                                      const std::vector<store::AliasRow>& rows,
                                      const std::set<std::string>& models,
                                      std::vector<std::string>* problems,
                                      std::set<std::string>* refused = nullptr);

// Thread-safe. No function blocks but the destructor, and Follow. Callbacks run on the thread of
// the call, of the store or of the timers, and must not block.
//
// No alias has the name of a model, and no model that an alias names is unloaded: ModelAdmin adds
// and removes models through this object.
class AliasAdmin {
 public:
  struct Options {
    std::vector<AliasConfig> configured = {};
    // Of the store that keeps the changes. nullptr: they last until the server stops. Outlives the
    // object.
    store::CommitQueue* commits = nullptr;
    absl::Duration commit_timeout = absl::Seconds(10);
  };

  // The arguments outlive the object.
  AliasAdmin(const ModelRegistry* models, AliasTable* table, Timers* timers, Options options);
  // Waits for the changes that are being made durable.
  ~AliasAdmin();
  AliasAdmin(const AliasAdmin&) = delete;
  AliasAdmin& operator=(const AliasAdmin&) = delete;

  using Done = std::function<void(absl::Status)>;
  // Makes an alias, or puts it in the place of the one with its name. With a store, `done` is
  // called when the change is durable, and only then calls see the alias. INVALID_ARGUMENT: as for
  // CheckAlias; an arm is an alias. ALREADY_EXISTS: a model has the name. NOT_FOUND: the server has
  // no model with the name of an arm. FAILED_PRECONDITION: an arm's model is being unloaded; the
  // name is that of an arm of another alias. RESOURCE_EXHAUSTED: there are kMaxAliases. ABORTED:
  // the alias is being changed. Also returns the errors of the store, and UNAVAILABLE: it has not
  // answered in time, and the change may still be made.
  void Set(const AliasConfig& alias, Done done) ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_FOUND: no alias has this name. Other errors as for Set.
  void Delete(const std::string& name, Done done) ABSL_LOCKS_EXCLUDED(mutex_);

  // The changes of the table that Follow has made.
  struct Followed {
    std::vector<AliasConfig> set = {};
    std::vector<std::string> removed = {};
    std::vector<std::string> problems = {};  // a sentence for each alias that cannot be taken over
  };
  // Takes over the aliases of the store, in which other replicas keep their changes. An alias stays
  // as it is if its row cannot be used, or if it gets an arm that is no model of this server. Reads
  // the store on the calling thread. nullopt: this server was changing an alias meanwhile, so
  // nothing was done. Returns the store's errors.
  absl::StatusOr<std::optional<Followed>> Follow(store::SessionStore* store)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // In the order of their names.
  std::vector<AliasConfig> List() const { return table_->List(); }
  // Of an arm of a route. nullopt: it has not been measured.
  std::optional<ArmCosts> CostsOf(std::string_view model) const { return table_->CostsOf(model); }
  // Whether the alias differs from the configuration, which may not have it.
  bool IsChanged(const AliasConfig& alias) const;

  // Calls `add`, which adds a model with this name to the registry. ALREADY_EXISTS: an alias has
  // the name; then `add` is not called. `add` must not call this object, or call back.
  absl::Status AddModel(std::string_view name, const std::function<void()>& add)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `remove`, after which no session begins on the model. FAILED_PRECONDITION: an alias names
  // it. `remove` must not call this object, or call back.
  absl::Status RemoveModel(std::string_view name, const std::function<void()>& remove)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Check(const AliasConfig& alias) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status CheckArm(const char* field, const std::string& model) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  const AliasConfig* ConfiguredOf(const std::string& name) const;
  bool HasAlias(std::string_view name) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The aliases that have the model as an arm, or will have it.
  std::set<std::string> NamesOf(std::string_view model) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Makes a change that was checked and is in changing_: durable first, then seen.
  void Make(const AliasConfig& alias, Done done) ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(const AliasConfig& alias, const absl::Status& durable) ABSL_LOCKS_EXCLUDED(mutex_);
  // Changes the table as the rows say.
  Followed TakeOver(const std::vector<store::AliasRow>& rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins to measure the arms of a route that are served and were not measured.
  void MeasureArms(const AliasConfig& alias) const;

  const ModelRegistry* const models_;
  AliasTable* const table_;
  Timers* const timers_;
  const Options options_;

  absl::Mutex mutex_;
  // Changes that the store is making durable, by name. No arms: the alias is being deleted.
  std::map<std::string, AliasConfig, std::less<>> changing_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_changes_ ABSL_GUARDED_BY(mutex_) = 0;  // that have ended
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;  // callbacks of the store that have not returned
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MODELS_ALIAS_ADMIN_H_
