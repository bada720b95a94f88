// The aliases of this server: names behind which one of several models serves each session.
#ifndef LONGSTREAM_SERVICE_SERVING_ALIASES_ALIAS_TABLE_H_
#define LONGSTREAM_SERVICE_SERVING_ALIASES_ALIAS_TABLE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/config/alias_config.h"
#include "service/metrics/alias_metrics.h"
#include "service/routing/route_choice.h"
#include "service/serving/routing/arm_book.h"
#include "service/sessions/session_id.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Thread-safe. An alias does not change: Set puts another one in its place, and calls that have
// found the earlier one go on with what they have chosen. The table does not know the models; who
// changes it checks them (AliasAdmin).
class AliasTable {
 public:
  // `metrics`: where the arms have their metrics; nullptr: they have none. Outlives the table, and
  // the turns of its arms. `book`: the costs of the arms of routes; the table tells it which models
  // are such arms. nullptr: no costs are known.
  explicit AliasTable(const std::vector<AliasConfig>& aliases = {},
                      prometheus::Registry* metrics = nullptr,
                      std::shared_ptr<ArmBook> book = nullptr);

  // The arm that an alias has chosen for a session.
  struct Chosen {
    std::string alias;
    std::string model;
    std::shared_ptr<ArmMetrics> metrics;  // may be nullptr
    // Why a route has chosen the arm. nullptr: the alias has weights.
    std::shared_ptr<const RouteDecision> routing = nullptr;

    // The error of the model with the names of alias and arm. A model that is not served is
    // FAILED_PRECONDITION, because the client has named the alias, and not the model.
    absl::Status Explain(const absl::Status& of_model) const;
  };
  // Whether a model serves new sessions now. Must not call the table.
  using IsServed = std::function<bool(const std::string& model)>;
  // As ChooseArm, or ChooseRoute for `ask` with the present costs. nullopt: no alias has this name.
  // `is_served`: for routes; nullptr: each arm counts as served.
  std::optional<Chosen> Choose(std::string_view name, const SessionId& id, const RouteAsk& ask = {},
                               const IsServed& is_served = nullptr) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  ArmBook* book() const { return book_.get(); }  // may be nullptr
  // Of an arm of a route. nullopt: it has not been measured.
  std::optional<ArmCosts> CostsOf(std::string_view model) const;

  bool Has(std::string_view name) const { return Find(name).has_value(); }
  std::optional<AliasConfig> Find(std::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  // In the order of their names.
  std::vector<AliasConfig> List() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The aliases that have this model as an arm, also with the weight 0.
  std::vector<std::string> NamesOf(std::string_view model) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The metrics of an arm. nullptr: the alias does not have this arm now, or there are no metrics.
  std::shared_ptr<ArmMetrics> MetricsOf(std::string_view alias, std::string_view model) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The shadow of an alias. nullopt: no alias has this name, or it has none.
  std::optional<AliasShadow> ShadowOf(std::string_view alias) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the alias, or puts it in the place of the one that has its name. An arm that the earlier
  // one had too keeps its metrics. The metrics of other arms are removed from Prometheus.
  // REQUIRES: CheckAlias(alias).
  void Set(AliasConfig alias) ABSL_LOCKS_EXCLUDED(mutex_);
  // False: no alias has this name.
  bool Remove(std::string_view name) ABSL_LOCKS_EXCLUDED(mutex_);

  // `changed` is called at once with all aliases, and after each change, one call at a time.
  // nullptr: no more calls; when SetListener returns, none is running. `changed` must not call
  // the table.
  using Listener = std::function<void(const std::vector<AliasConfig>& aliases)>;
  void SetListener(Listener changed) ABSL_LOCKS_EXCLUDED(mutex_, listener_mutex_);

 private:
  struct Entry {
    AliasConfig alias;
    std::map<std::string, std::shared_ptr<ArmMetrics>, std::less<>> metrics;  // by model
  };
  using Entries = std::map<std::string, std::shared_ptr<const Entry>, std::less<>>;

  std::shared_ptr<const Entry> EntryOf(std::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The entry of the alias. Takes over the metrics of `earlier`, and retires those that are left.
  // `earlier`: may be nullptr.
  std::shared_ptr<const Entry> MakeEntry(AliasConfig alias, const Entry* earlier) const;
  // As Set, but tells nobody.
  void Put(AliasConfig alias) ABSL_LOCKS_EXCLUDED(mutex_)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(listener_mutex_);
  // Tells the book which models are arms of routes.
  void TellBook() ABSL_LOCKS_EXCLUDED(mutex_);
  void TellListener() ABSL_LOCKS_EXCLUDED(mutex_) ABSL_EXCLUSIVE_LOCKS_REQUIRED(listener_mutex_);

  prometheus::Registry* const registry_;
  const std::shared_ptr<ArmBook> book_;
  // Held by changes from their beginning to their end, so that the listener hears them in order.
  absl::Mutex listener_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Listener listener_ ABSL_GUARDED_BY(listener_mutex_);
  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ALIASES_ALIAS_TABLE_H_
