// Loads the models of the server one after the other and keeps their states.
#include "service/serving/model_registry.h"

#include <malloc.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "kernels/core/physical_memory.h"
#include "service/config/names.h"
#include "service/errors/retry_after.h"

namespace longstream {
namespace {

// How often memory is divided again while a model holds more than its share.
constexpr absl::Duration kSharingPeriod = absl::Seconds(1);

absl::Status FailedError(const ModelStatus& status) {
  const std::string model = absl::StrCat("model ", status.name);
  // Errors of loading name the model themselves.
  const absl::string_view why = absl::StripPrefix(status.error.message(), model + ": ");
  return UntilMended(absl::UnavailableError(absl::StrCat(
      model, status.engine == nullptr ? " could not be loaded: " : " has failed: ", why)));
}

// The beginning of an error. An empty name has none.
std::string NoModelText(std::string_view name) {
  if (name.empty()) return "";
  return absl::StrCat("no model ", EscapedName(name), "; ");
}

}  // namespace

ModelRegistry::ModelRegistry(const Options& options, std::vector<ModelSource> sources,
                             StateListener listener)
    : options_(options),
      sources_(std::move(sources)),
      listener_(std::move(listener)),
      host_memory_(std::make_shared<HostMemory>(
          HostReserve::Of(options.memory_bytes, options.session_host_bytes).sessions,
          options.conversation_bytes)),
      tenants_(options.tenants, host_memory_, options.quota_clock),
      may_load_(options.load_at_once),
      plan_(options.memory_bytes, AnonymousMemory(), sources_, options.plugins,
            options.session_host_bytes) {
  {
    absl::MutexLock lock(&mutex_);
    for (const ModelSource& source : sources_) {
      ModelStatus status;
      status.name = status.plan_name = source.name;
      status.version = source.version;
      status.directory = source.directory;
      models_.emplace(source.name, std::move(status));
    }
  }
  loader_ = std::thread([this] { LoadAll(); });
}

ModelRegistry::~ModelRegistry() {
  CancelOperations();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    may_load_ = true;
  }
  loader_.join();
  for (const std::shared_ptr<Engine>& engine : Engines()) {
    engine->Stop(absl::UnavailableError("the server is shutting down"));
  }
}

void ModelRegistry::BeginToLoad() {
  absl::MutexLock lock(&mutex_);
  may_load_ = true;
}

void ModelRegistry::LoadSources() {
  for (const ModelSource& source : sources_) {
    {
      absl::MutexLock lock(&mutex_);
      if (cancels_jobs_) return;
    }
    ModelStatus status;
    try {
      status = Load(source);
    } catch (const std::exception& error) {  // no memory, or no thread for the engine
      plan_.Remove(source.name);
      sharing_.erase(source.name);
      status.state = ModelState::kFailed;
      status.error = absl::ResourceExhaustedError(
          absl::StrCat("model ", source.name, ": no memory or no threads: ", error.what()));
    }
    status.name = status.plan_name = source.name;
    status.version = source.version;
    status.directory = source.directory;
    {
      absl::MutexLock lock(&mutex_);
      models_[source.name] = std::move(status);
    }
    Tell(source.name);
  }
}

void ModelRegistry::LoadAll() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&may_load_));
  }
  LoadSources();
  while (true) {
    const bool settled = ShareMemory();
    if (settled) LogShares();
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &ModelRegistry::HasNews),
                              settled ? absl::InfiniteDuration() : kSharingPeriod);
      if (stopping_) return;
    }
    RunJob();
  }
}

absl::StatusOr<std::shared_ptr<ServedModel>> ModelRegistry::LoadWithinPlan(
    const ModelSource& source, const std::string& plan_name) {
  MeasureMemory();
  absl::StatusOr<std::shared_ptr<ServedModel>> model =
      ServedModel::Load(source, options_.plugins, options_.host, plan_.BudgetFor(plan_name));
  // Loading frees what it needed for a while. The plan counts what the process holds after that.
  malloc_trim(0);
  if (!model.ok() || !plan_.is_active()) return model;
  const BackendModel& backend = (*model)->backend();
  if (backend.plugin().device() != "cpu") {
    plan_.Remove(plan_name);
    return model;
  }
  const ls_memory memory = backend.memory();
  const bool is_fixed = source.cache_bytes_budget != 0 || !backend.plugin().Can(LS_CAP_SET_BUDGET);
  // 0 would mean that the plan decides. A plugin that reports no budget has at least a byte.
  const uint64_t fixed =
      std::clamp<uint64_t>(memory.budget, 1, std::max<uint64_t>(1, plan_.limit()));
  MeasureMemory();
  absl::Status status =
      plan_.Add(plan_name, memory.weights + memory.workspace,
                CacheNeed::Of(backend.info(), source.max_batch_sequences), is_fixed ? fixed : 0);
  if (!status.ok()) return status;
  return model;
}

std::shared_ptr<Engine> ModelRegistry::MakeEngine(const std::shared_ptr<ServedModel>& model,
                                                  const std::string& plan_name) {
  const ModelSource& source = model->source();
  const Plugin& plugin = model->backend().plugin();
  auto metrics = std::make_unique<ModelMetrics>(
      options_.metrics,
      ModelMetrics::Labels{source.name, source.version, plugin.name(), plugin.device()});
  metrics->ObserveLoad("backend", absl::ToDoubleSeconds(model->load_times().backend));
  metrics->ObserveLoad("tokenizer", absl::ToDoubleSeconds(model->load_times().tokenizer));
  Engine::Options options = options_.engine;
  if (tenants_.are_configured()) options.tenants = tenants_.all();
  options.max_batch_tokens = source.max_batch_tokens;
  options.max_batch_sequences = source.max_batch_sequences;
  options.on_lost = [this, plan_name](const absl::Status& why) { Lose(plan_name, why); };
  // The engine's thread may not start.
  const absl::Cleanup retire = [&metrics] {
    if (metrics != nullptr) metrics->Retire();
  };
  auto engine = std::make_shared<Engine>(model, options, metrics.get());
  metrics_[engine.get()] = std::move(metrics);
  return engine;
}

void ModelRegistry::Share(const std::string& plan_name, const std::shared_ptr<Engine>& engine) {
  if (plan_.is_active() && engine->model().backend().plugin().Can(LS_CAP_SET_BUDGET)) {
    sharing_[plan_name] = engine;
  }
}

void ModelRegistry::MeasureMemory() {
  // Caches and sessions have parts of the memory of their own. Idle memory of caches would count as
  // the program's.
  uint64_t caches = 0;
  for (const ModelStatus& model : ListVersions()) {
    if (model.engine == nullptr) continue;
    if (sharing_.contains(model.plan_name)) {
      absl::Notification returned;
      model.engine->ReturnAllIdleMemory([&returned] { returned.Notify(); });
      returned.WaitForNotification();
    }
    const BackendModel& backend = model.engine->model().backend();
    const ls_memory memory = backend.memory();
    plan_.SetHeld(model.plan_name, memory.reserved);
    if (backend.plugin().device() != "cpu") continue;
    caches += memory.pages + memory.rings + memory.states + memory.checkpoints;
  }
  const uint64_t all = AnonymousMemory();
  plan_.SetUsed(all - std::min(all, caches + host_memory_->held_bytes()));
}

bool ModelRegistry::ShareMemory() {
  const auto set_budget = [](Engine& engine, uint64_t bytes) {
    absl::Notification done;
    engine.SetBudget(bytes, [&](const absl::Status&) { done.Notify(); });
    done.WaitForNotification();
  };
  const auto memory = [this](const std::string& name) {
    return sharing_.at(name)->model().backend().memory();
  };
  std::vector<std::string> lost;
  {
    absl::MutexLock lock(&mutex_);
    lost.swap(lost_);
  }
  for (const std::string& name : lost) {
    plan_.Lose(name);
    sharing_.erase(name);
  }
  MeasureMemory();
  bool settled = true;
  const std::vector<MemoryPlan::Share> shares = plan_.Shares(&settled);
  // Budgets that become smaller are set first. Until they are, their engines may reserve more.
  for (const MemoryPlan::Share& share : shares) {
    if (share.bytes < memory(share.name).budget) set_budget(*sharing_.at(share.name), share.bytes);
  }
  for (const MemoryPlan::Share& share : shares) {
    if (memory(share.name).reserved > share.bytes) return false;
  }
  for (const MemoryPlan::Share& share : shares) {
    if (share.bytes > memory(share.name).budget) set_budget(*sharing_.at(share.name), share.bytes);
  }
  return settled;
}

void ModelRegistry::LogShares() const {
  if (!plan_.is_active()) return;
  std::vector<std::string> shares;
  for (const ModelStatus& model : List()) {
    if (model.state != ModelState::kReady) continue;
    const BackendModel& backend = model.engine->model().backend();
    if (backend.plugin().device() != "cpu") continue;
    shares.push_back(absl::StrCat(model.name, " ", backend.memory().budget));
  }
  if (shares.empty()) return;
  options_.host->Write(
      LogSeverity::kInfo,
      absl::StrCat("memory: ", plan_.limit(), " bytes for the process, ", plan_.reserve().Sum(),
                   " of them as a reserve (", plan_.reserve().sessions,
                   " for sessions); caches: ", absl::StrJoin(shares, ", ")));
}

ModelStatus ModelRegistry::Load(const ModelSource& source) {
  const absl::StatusOr<std::shared_ptr<ServedModel>> model = LoadWithinPlan(source, source.name);
  ModelStatus status;
  if (model.ok()) {
    status.state = ModelState::kReady;
    status.engine = MakeEngine(*model, source.name);
    Share(source.name, status.engine);
    ShareMemory();
    if (options_.prepare) options_.prepare(status.engine);
  } else {
    plan_.Remove(source.name);
    status.state = ModelState::kFailed;
    status.error = model.status();
  }
  return status;
}

void ModelRegistry::Lose(const std::string& plan_name, const absl::Status& why) {
  std::string name_of_model;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;  // the destructor is freeing the engine and the map
    const auto lose = [&](ModelStatus& version) {
      if (version.plan_name != plan_name || version.engine == nullptr) return false;
      version.state = ModelState::kFailed;
      version.error = why;
      return true;
    };
    for (auto& [name, version] : models_) {
      if (lose(version)) name_of_model = name;
    }
    for (ModelStatus& version : others_) lose(version);
    lost_.push_back(plan_name);
  }
  if (!name_of_model.empty()) Tell(name_of_model);
}

bool ModelRegistry::IsPublished(const ModelStatus& status) const {
  if (status.state != ModelState::kLoading && status.state != ModelState::kWarming) return true;
  // Models of the start are there from the beginning, and a failed one while it is loaded again.
  return !busy_.contains(status.name) || replaced_.contains(status.name);
}

absl::StatusOr<ModelStatus> ModelRegistry::Status(std::string_view name) const {
  absl::MutexLock lock(&mutex_);
  if (!name.empty()) {
    const auto found = models_.find(name);
    if (found != models_.end()) return found->second;
  }
  std::vector<const ModelStatus*> published;
  std::vector<std::string> names;
  for (const auto& [other, status] : models_) {
    if (!IsPublished(status)) continue;
    published.push_back(&status);
    names.push_back(other);
  }
  if (name.empty() && published.size() == 1) return *published.front();
  if (published.empty()) {
    return absl::NotFoundError(
        absl::StrCat("model: ", NoModelText(name), "the server has no model"));
  }
  if (name.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "model: the server has several models, and the request names none; available: ",
        absl::StrJoin(names, ", ")));
  }
  return absl::NotFoundError(
      absl::StrCat("model: ", NoModelText(name), "available: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::shared_ptr<Engine>> ModelRegistry::Find(std::string_view name) const {
  absl::StatusOr<ModelStatus> status = Status(name);
  if (!status.ok()) return status.status();
  switch (status->state) {
    case ModelState::kReady:
      return status->engine;
    case ModelState::kLoading:
    case ModelState::kWarming:
      return absl::UnavailableError(absl::StrCat("model ", status->name, " is loading"));
    case ModelState::kDraining:
    case ModelState::kGone:
      return absl::FailedPreconditionError(
          absl::StrCat("model ", status->name, " is being unloaded"));
    case ModelState::kFailed:
      return FailedError(*status);
  }
  return absl::InternalError("a model has an unknown state");
}

absl::Status ModelRegistry::Check(const Engine& engine) const {
  {
    absl::MutexLock lock(&mutex_);
    for (const ModelStatus* const version : Versions()) {
      if (version->engine.get() != &engine) continue;
      if (version->state == ModelState::kFailed) return FailedError(*version);
    }
  }
  return engine.unloading() ? engine.CheckOpen() : absl::OkStatus();
}

std::vector<const ModelStatus*> ModelRegistry::Versions() const {
  std::vector<const ModelStatus*> versions;
  versions.reserve(models_.size() + others_.size());
  for (const auto& [name, status] : models_) versions.push_back(&status);
  for (const ModelStatus& status : others_) versions.push_back(&status);
  std::stable_sort(versions.begin(), versions.end(),
                   [](const auto* a, const auto* b) { return a->name < b->name; });
  return versions;
}

std::vector<ModelStatus> ModelRegistry::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModelStatus> list;
  list.reserve(models_.size());
  for (const auto& [name, status] : models_) list.push_back(status);
  return list;
}

std::vector<ModelStatus> ModelRegistry::ListVersions() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModelStatus> list;
  for (const ModelStatus* const version : Versions()) list.push_back(*version);
  return list;
}

std::vector<std::shared_ptr<Engine>> ModelRegistry::Engines() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Engine>> engines;
  for (const ModelStatus* const version : Versions()) {
    if (version->engine != nullptr) engines.push_back(version->engine);
  }
  return engines;
}

absl::Status ModelRegistry::WaitUntilLoaded() const {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](const ModelRegistry* set) ABSL_EXCLUSIVE_LOCKS_REQUIRED(set->mutex_) {
        for (const ModelSource& source : set->sources_) {
          const auto found = set->models_.find(source.name);
          if (found != set->models_.end() && found->second.state == ModelState::kLoading) {
            return false;
          }
        }
        return true;
      },
      this));
  for (const auto& [name, status] : models_) {
    if (!status.error.ok()) return status.error;
  }
  return absl::OkStatus();
}

}  // namespace longstream
