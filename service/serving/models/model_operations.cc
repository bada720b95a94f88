// Models that are loaded, replaced and unloaded while the server runs.
#include <malloc.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/config/names.h"
#include "service/errors/with_message.h"
#include "service/models/expected_memory.h"
#include "service/models/warm_up.h"
#include "service/serving/model_registry.h"

namespace longstream {
namespace {

constexpr size_t kMostJobs = 64;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string PlanName(const ModelSource& source) {
  return absl::StrCat(source.name, " version ", source.version);
}

// The same error with the name of the model, which some errors have already.
absl::Status Named(const std::string& name, const absl::Status& status) {
  const std::string prefix = absl::StrCat("model ", name, ": ");
  if (status.message().substr(0, prefix.size()) == prefix) return status;
  return WithMessage(status, absl::StrCat(prefix, status.message()));
}

absl::Status IsBusy(std::string_view name) {
  return absl::AbortedError(
      absl::StrCat("model ", View(name), ": another operation on this model is running"));
}

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

absl::Status NoModel(std::string_view name) {
  return absl::NotFoundError(absl::StrCat("model: no model ", EscapedName(name)));
}

ModelStatus StatusOf(const ModelSource& source) {
  ModelStatus status;
  status.name = source.name;
  status.version = source.version;
  status.directory = source.directory;
  status.plan_name = PlanName(source);
  return status;
}

}  // namespace

absl::Status ModelRegistry::AddJob(Job job) {
  if (cancels_jobs_) return ShuttingDown();
  if (jobs_.size() >= kMostJobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("models: ", jobs_.size(), " operations wait already, the limit"));
  }
  jobs_.push_back(std::move(job));
  return absl::OkStatus();
}

void ModelRegistry::RunJob() {
  Job job;
  {
    absl::MutexLock lock(&mutex_);
    if (jobs_.empty()) return;
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  job.run();
}

void ModelRegistry::CancelOperations() {
  std::deque<Job> jobs;
  {
    absl::MutexLock lock(&mutex_);
    cancels_jobs_ = true;
    jobs.swap(jobs_);
  }
  for (const Job& job : jobs) job.cancel();
}

// ---------------------------------------------------------------- loading

absl::Status ModelRegistry::BeginLoad(const ModelSource& source) {
  if (busy_.contains(source.name)) return IsBusy(source.name);
  const auto found = models_.find(source.name);
  if (found != models_.end()) {
    ModelStatus& present = found->second;
    if (present.state == ModelState::kLoading) {
      return absl::AbortedError(absl::StrCat("model ", source.name, " is loading"));
    }
    if (present.state != ModelState::kFailed || present.engine != nullptr) {
      return absl::AlreadyExistsError(absl::StrCat(
          "model: ", source.name, " is there already; swap it for another version, or unload it"));
    }
    replaced_[source.name] = std::move(present);
  }
  models_[source.name] = StatusOf(source);
  return absl::OkStatus();
}

std::string ModelRegistry::NextVersion(std::string_view name) const {
  uint64_t next = 2;
  for (const ModelStatus* const version : Versions()) {
    uint64_t number = 0;
    if (version->name != name || !absl::SimpleAtoi(version->version, &number)) continue;
    next = std::max(next, number + 1);
  }
  return std::to_string(next);
}

absl::Status ModelRegistry::BeginSwap(ModelSource* source) {
  const auto found = models_.find(source->name);
  if (found == models_.end()) return NoModel(source->name);
  if (busy_.contains(source->name)) return IsBusy(source->name);
  if (found->second.state != ModelState::kReady) {
    return absl::FailedPreconditionError(
        absl::StrCat("model ", source->name, " is not ready, so it cannot be swapped"));
  }
  if (source->version.empty()) source->version = NextVersion(source->name);
  for (const ModelStatus* const version : Versions()) {
    if (version->name != source->name || version->version != source->version) continue;
    return absl::AlreadyExistsError(absl::StrCat("version: model ", source->name, " has version ",
                                                 source->version, " already"));
  }
  others_.push_back(StatusOf(*source));
  return absl::OkStatus();
}

void ModelRegistry::Load(ModelSource source, const LoadCallbacks& callbacks) {
  absl::Status status = TryLoad(std::move(source), callbacks);
  if (!status.ok()) callbacks.done(std::move(status));
}

absl::Status ModelRegistry::TryLoad(ModelSource source, const LoadCallbacks& callbacks) {
  if (source.version.empty()) source.version = "1";
  return AddLoad(std::move(source), callbacks, /*swaps=*/false);
}

void ModelRegistry::Swap(ModelSource source, const LoadCallbacks& callbacks) {
  absl::Status status = AddLoad(std::move(source), callbacks, /*swaps=*/true);
  if (!status.ok()) callbacks.done(std::move(status));
}

absl::Status ModelRegistry::AddLoad(ModelSource source, const LoadCallbacks& callbacks,
                                    bool swaps) {
  absl::MutexLock lock(&mutex_);
  absl::Status status = swaps ? BeginSwap(&source) : BeginLoad(source);
  if (!status.ok()) return status;
  busy_.insert(source.name);
  status = AddJob(
      {[this, source, callbacks, swaps] { RunLoad(source, callbacks, swaps); },
       [this, source, callbacks, swaps] { EndLoad(source, callbacks, swaps, ShuttingDown()); }});
  if (!status.ok()) Revert(source, swaps);
  return status;
}

void ModelRegistry::Revert(const ModelSource& source, bool swaps) {
  busy_.erase(source.name);
  if (swaps) {
    std::erase_if(others_, [plan_name = PlanName(source)](const ModelStatus& other) {
      return other.plan_name == plan_name;
    });
    return;
  }
  models_.erase(source.name);
  auto before = replaced_.extract(source.name);
  if (!before.empty()) models_.insert(std::move(before));
}

void ModelRegistry::SetProgress(const ModelSource& source, ModelState state, uint64_t bytes,
                                const LoadCallbacks& callbacks) {
  ModelStatus told;
  const std::string plan_name = PlanName(source);
  {
    absl::MutexLock lock(&mutex_);
    const auto set = [&](ModelStatus& status) {
      if (status.plan_name != plan_name) return;
      status.state = state;
      status.expected_bytes = bytes;
      told = status;
    };
    set(models_[source.name]);
    for (ModelStatus& other : others_) set(other);
  }
  if (callbacks.on_progress) callbacks.on_progress(told);
}

absl::Status ModelRegistry::Admit(const ModelSource& source, const std::string& plan_name) {
  if (!plan_.is_active()) return absl::OkStatus();
  MeasureMemory();
  absl::Status status = plan_.Expect(plan_name, source, options_.plugins);
  if (!status.ok()) return status;
  ShareMemory();  // the other models give memory back
  MeasureMemory();
  return plan_.CheckHeld();
}

absl::StatusOr<std::shared_ptr<Engine>> ModelRegistry::LoadNow(const ModelSource& source,
                                                               const LoadCallbacks& callbacks) {
  const std::string plan_name = PlanName(source);
  const uint64_t bytes = ExpectedMemory::Of(source).Sum();
  SetProgress(source, ModelState::kLoading, bytes, callbacks);
  if (absl::Status status = Admit(source, plan_name); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<ServedModel>> model = LoadWithinPlan(source, plan_name);
  if (!model.ok()) return model.status();
  SetProgress(source, ModelState::kWarming, bytes, callbacks);
  absl::Status status = WarmUp((*model)->backend(), source.max_batch_tokens);
  if (!status.ok()) return status;
  std::shared_ptr<Engine> engine = MakeEngine(*model, plan_name);
  Share(plan_name, engine);
  if (options_.prepare) options_.prepare(engine);
  return engine;
}

void ModelRegistry::RunLoad(const ModelSource& source, const LoadCallbacks& callbacks, bool swaps) {
  absl::StatusOr<std::shared_ptr<Engine>> engine;
  try {
    engine = LoadNow(source, callbacks);
  } catch (const std::exception& error) {  // no memory, or no thread for the engine
    engine = absl::ResourceExhaustedError(absl::StrCat("it could not be loaded: ", error.what()));
  }
  if (!engine.ok()) {
    const std::string plan_name = PlanName(source);
    plan_.Remove(plan_name);
    sharing_.erase(plan_name);
    malloc_trim(0);
  }
  ShareMemory();
  if (!engine.ok()) return EndLoad(source, callbacks, swaps, engine.status());
  ModelStatus loaded;
  std::shared_ptr<Engine> replaced;
  {
    absl::MutexLock lock(&mutex_);
    replaced = Publish(source, *std::move(engine), swaps);
    loaded = models_[source.name];
  }
  Tell(source.name);
  // An operation that unloads the name comes after this.
  if (replaced != nullptr && callbacks.on_replaced) callbacks.on_replaced(std::move(replaced));
  {
    absl::MutexLock lock(&mutex_);
    busy_.erase(source.name);
  }
  callbacks.done(std::move(loaded));
}

void ModelRegistry::EndLoad(const ModelSource& source, const LoadCallbacks& callbacks, bool swaps,
                            const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    Revert(source, swaps);
  }
  Tell(source.name);
  callbacks.done(Named(source.name, why));
}

std::shared_ptr<Engine> ModelRegistry::Publish(const ModelSource& source,
                                               std::shared_ptr<Engine> engine, bool swaps) {
  replaced_.erase(source.name);
  ModelStatus& current = models_[source.name];
  std::shared_ptr<Engine> earlier;
  if (swaps) {
    // BeginSwap has put it there.
    const auto found = std::find_if(others_.begin(), others_.end(),
                                    [plan_name = PlanName(source)](const ModelStatus& other) {
                                      return other.plan_name == plan_name;
                                    });
    std::swap(current, *found);
    if (found->state == ModelState::kReady) found->state = ModelState::kDraining;
    earlier = found->engine;
  }
  current.state = ModelState::kReady;
  current.engine = std::move(engine);
  return earlier;
}

void ModelRegistry::Tell(const std::string& name) {
  if (!listener_) return;
  absl::MutexLock telling(&listener_mutex_);
  ModelStatus status;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = models_.find(name);
    if (found != models_.end()) {
      status = found->second;
      // The load tells its end.
      if (status.state == ModelState::kLoading || status.state == ModelState::kWarming) return;
    } else {
      status.state = ModelState::kGone;
    }
  }
  const auto told = told_.find(name);
  if (status.state == ModelState::kGone) {
    if (told == told_.end()) return;  // it was never there
    status.name = name;
    status.version = told->second.version;
    told_.erase(told);
  } else {
    const Told news{status.state, status.version};
    if (told != told_.end() && told->second == news) return;
    told_[name] = news;
    if (status.state != ModelState::kReady) status.engine = nullptr;
  }
  listener_(status);
}

// ---------------------------------------------------------------- unloading

absl::StatusOr<std::vector<std::shared_ptr<Engine>>> ModelRegistry::BeginUnload(
    std::string_view name) {
  absl::StatusOr<std::vector<std::shared_ptr<Engine>>> engines = BeginUnloadUntold(name);
  if (engines.ok()) Tell(std::string(name));
  return engines;
}

absl::StatusOr<std::vector<std::shared_ptr<Engine>>> ModelRegistry::BeginUnloadUntold(
    std::string_view name) {
  std::vector<std::shared_ptr<Engine>> engines;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) return NoModel(name);
    if (busy_.contains(name)) return IsBusy(name);
    ModelStatus& current = found->second;
    if (current.state == ModelState::kLoading) {
      return absl::UnavailableError(absl::StrCat("model ", View(name), " is loading"));
    }
    if (current.engine == nullptr) {
      models_.erase(found);
    } else {
      busy_.insert(std::string(name));
      for (const ModelStatus* const version : Versions()) {
        if (version->name == name) engines.push_back(version->engine);
      }
      if (current.state == ModelState::kReady) current.state = ModelState::kDraining;
    }
  }
  for (const std::shared_ptr<Engine>& engine : engines) engine->BeginUnload();
  return engines;
}

void ModelRegistry::Retire(std::shared_ptr<Engine> engine,
                           const std::function<void(absl::Status)>& done) {
  engine->BeginUnload();
  {
    absl::MutexLock lock(&mutex_);
    if (!cancels_jobs_) {
      // It always has a place in the queue: a model that is not served must free its memory.
      jobs_.push_back({[this, engine = std::move(engine), done] {
                         RunRetire(engine);
                         done(absl::OkStatus());
                       },
                       [done] { done(ShuttingDown()); }});
      return;
    }
  }
  done(ShuttingDown());
}

void ModelRegistry::RunRetire(const std::shared_ptr<Engine>& engine) {
  const std::string& name = engine->model().name();
  engine->Stop(absl::FailedPreconditionError(absl::StrCat("model ", name, " was unloaded")));
  const auto metrics = metrics_.extract(engine.get());
  if (!metrics.empty()) metrics.mapped()->Retire();
  std::string plan_name;
  bool is_last = false;
  const auto is_it = [&](const ModelStatus& status) { return status.engine == engine; };
  {
    absl::MutexLock lock(&mutex_);
    const auto current = models_.find(name);
    if (current != models_.end() && is_it(current->second)) {
      plan_name = current->second.plan_name;
      models_.erase(current);
    } else {
      const auto other = std::find_if(others_.begin(), others_.end(), is_it);
      if (other == others_.end()) return;
      plan_name = other->plan_name;
      others_.erase(other);
    }
    const auto versions = Versions();
    is_last = std::none_of(versions.begin(), versions.end(),
                           [&](const auto* version) { return version->name == name; });
    std::erase(lost_, plan_name);
  }
  plan_.Remove(plan_name);
  sharing_.erase(plan_name);
  malloc_trim(0);
  ShareMemory();
  Tell(name);
  if (!is_last) return;
  // The operation that unloads the name ends with its last version.
  absl::MutexLock lock(&mutex_);
  busy_.erase(name);
}

}  // namespace longstream
