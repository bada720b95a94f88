// Loads the models of the server one after the other and keeps their states.
#include "service/serving/model_registry.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace longstream {
namespace {

// An error repeats at most this many bytes of an unknown model name.
constexpr size_t kMaxEchoBytes = 64;

}  // namespace

ModelRegistry::ModelRegistry(const Options& options, std::vector<ModelSource> sources,
                             StateListener listener)
    : options_(options), sources_(std::move(sources)), listener_(std::move(listener)) {
  {
    absl::MutexLock lock(&mutex_);
    for (const ModelSource& source : sources_) {
      ModelStatus status;
      status.name = source.name;
      models_.emplace(source.name, std::move(status));
    }
  }
  loader_ = std::thread([this] { LoadAll(); });
}

ModelRegistry::~ModelRegistry() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  loader_.join();
}

void ModelRegistry::LoadAll() {
  for (const ModelSource& source : sources_) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    ModelStatus status;
    try {
      status = Load(source);
    } catch (const std::exception& error) {  // no memory, or no thread for the engine
      status.name = source.name;
      status.state = ModelState::kFailed;
      status.error = absl::ResourceExhaustedError(
          absl::StrCat("model ", source.name, ": it could not be loaded: ", error.what()));
    }
    {
      absl::MutexLock lock(&mutex_);
      models_[source.name] = status;
    }
    if (listener_) listener_(status);
  }
}

ModelStatus ModelRegistry::Load(const ModelSource& source) {
  absl::StatusOr<std::shared_ptr<ServedModel>> model =
      ServedModel::Load(source, options_.plugins, options_.host);
  ModelStatus status;
  status.name = source.name;
  if (model.ok()) {
    const Plugin& plugin = (*model)->backend().plugin();
    auto metrics = std::make_unique<ModelMetrics>(
        options_.metrics,
        ModelMetrics::Labels{source.name, source.version, plugin.name(), plugin.device()});
    metrics->ObserveLoad("backend", absl::ToDoubleSeconds((*model)->load_times().backend));
    metrics->ObserveLoad("tokenizer", absl::ToDoubleSeconds((*model)->load_times().tokenizer));
    Engine::Options engine = options_.engine;
    engine.max_batch_tokens = source.max_batch_tokens;
    engine.max_batch_sequences = source.max_batch_sequences;
    engine.on_lost = [this, name = source.name](const absl::Status& why) { Lose(name, why); };
    status.engine = std::make_shared<Engine>(*model, engine, metrics.get());
    status.state = ModelState::kReady;
    absl::MutexLock lock(&mutex_);
    metrics_.push_back(std::move(metrics));
  } else {
    status.state = ModelState::kFailed;
    status.error = model.status();
  }
  return status;
}

void ModelRegistry::Lose(const std::string& name, const absl::Status& why) {
  ModelStatus told;
  told.name = name;
  told.state = ModelState::kFailed;
  told.error = why;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;  // the destructor is freeing the engine and the map
    ModelStatus& status = models_[name];
    status.state = told.state;
    status.error = told.error;
  }
  if (listener_) listener_(told);
}

absl::StatusOr<ModelStatus> ModelRegistry::Status(std::string_view name) const {
  absl::MutexLock lock(&mutex_);
  if (name.empty() && models_.size() == 1) return models_.begin()->second;
  const auto found = models_.find(name);
  if (found != models_.end()) return found->second;
  std::vector<std::string> names;
  names.reserve(models_.size());
  for (const auto& [other, status] : models_) names.push_back(other);
  if (name.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "model: the server has several models, and the request names none; available: ",
        absl::StrJoin(names, ", ")));
  }
  return absl::NotFoundError(absl::StrCat(
      "model: no model '", absl::string_view(name.data(), name.size()).substr(0, kMaxEchoBytes),
      name.size() > kMaxEchoBytes ? "...'" : "'", "; available: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::shared_ptr<Engine>> ModelRegistry::Find(std::string_view name) const {
  absl::StatusOr<ModelStatus> status = Status(name);
  if (!status.ok()) return status.status();
  switch (status->state) {
    case ModelState::kReady:
      return status->engine;
    case ModelState::kLoading:
      return absl::UnavailableError(absl::StrCat("model ", status->name, " is loading"));
    case ModelState::kFailed:
      return absl::UnavailableError(
          absl::StrCat("model ", status->name,
                       status->engine == nullptr ? " could not be loaded: " : " has failed: ",
                       status->error.message()));
  }
  return absl::InternalError("a model has an unknown state");
}

std::vector<ModelStatus> ModelRegistry::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModelStatus> list;
  list.reserve(models_.size());
  for (const auto& [name, status] : models_) list.push_back(status);
  return list;
}

absl::Status ModelRegistry::WaitUntilLoaded() const {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](const ModelRegistry* set) ABSL_EXCLUSIVE_LOCKS_REQUIRED(set->mutex_) {
        for (const auto& [name, status] : set->models_) {
          if (status.state == ModelState::kLoading) return false;
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
