// Waits for the turns and sessions of models that are unloaded.
#include "service/serving/models/model_admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/config/names.h"
#include "service/models/call_options.h"
#include "service/models/model_directories.h"

namespace longstream {
namespace {

// When no turn runs any more, the sessions wait for the store no longer than this. The time begins
// anew when sessions have moved.
constexpr absl::Duration kMostMoving = absl::Seconds(30);

absl::Status Unloaded(const Engine& engine) {
  return absl::FailedPreconditionError(
      absl::StrCat("model ", engine.model().name(), " was unloaded"));
}

}  // namespace

ModelAdmin::ModelAdmin(ModelRegistry* models, SessionManager* sessions, Options options)
    : models_(models),
      sessions_(sessions),
      options_(std::move(options)),
      aliases_(models, &sessions->aliases(), sessions->timers(), options_.aliases),
      thread_([this] { Run(); }) {}

ModelAdmin::~ModelAdmin() {
  Stop();
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_operations_ == 0; };
  mutex_.Await(absl::Condition(&none));
}

void ModelAdmin::Stop() {
  models_->CancelOperations();
  std::list<Leaving> stay;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
    stay.swap(arriving_);
  }
  thread_.join();
  stay.splice(stay.end(), leaving_);
  for (const Leaving& leaving : stay) Refuse(leaving);
}

void ModelAdmin::Refuse(const Leaving& leaving) {
  if (leaving.unloading == nullptr) return;
  leaving.unloading->Finish(absl::UnavailableError("the server is shutting down"));
}

std::shared_ptr<void> ModelAdmin::Operation() {
  {
    absl::MutexLock lock(&mutex_);
    ++num_operations_;
  }
  return std::shared_ptr<void>(nullptr, [this](void*) {
    absl::MutexLock lock(&mutex_);
    --num_operations_;
  });
}

absl::StatusOr<ModelSource> ModelAdmin::SourceOf(const Wanted& wanted) const {
  if (absl::Status status = CheckName("name", wanted.name); !status.ok()) return status;
  if (!wanted.version.empty()) {
    absl::Status status = CheckName("version", wanted.version);
    if (!status.ok()) return status;
  }
  if (!wanted.options_json.empty()) {
    absl::Status status = CheckCallOptions(wanted.options_json);
    if (!status.ok()) return status;
  }
  absl::StatusOr<std::string> directory = FindModelDirectory(
      options_.model_directories, wanted.directory.empty() ? wanted.name : wanted.directory);
  if (!directory.ok()) return directory.status();
  ModelSource source;
  source.name = wanted.name;
  source.directory = *std::move(directory);
  source.backend = wanted.backend;
  if (!wanted.device.empty()) source.device = wanted.device;
  source.version = wanted.version;
  source.cache_bytes_budget = wanted.cache_bytes;
  if (!wanted.options_json.empty()) source.options_json = wanted.options_json;
  source.max_batch_tokens = options_.max_batch_tokens;
  source.max_batch_sequences = options_.max_batch_sequences;
  return source;
}

void ModelAdmin::Load(const Wanted& wanted, Progress progress, const Loaded& loaded) {
  absl::StatusOr<ModelSource> source = SourceOf(wanted);
  if (!source.ok()) return loaded(source.status());
  const ModelRegistry::LoadCallbacks callbacks{
      std::move(progress), [operation = Operation(), loaded](absl::StatusOr<ModelStatus> status) {
        loaded(std::move(status));
      }};
  const std::string name = source->name;
  // No callback runs while the aliases are locked.
  absl::Status begun;
  absl::Status added =
      aliases_.AddModel(name, [&] { begun = models_->TryLoad(*std::move(source), callbacks); });
  if (added.ok()) added = std::move(begun);
  if (!added.ok()) loaded(std::move(added));
}

void ModelAdmin::Swap(const Wanted& wanted, const Moving& moving, Progress progress,
                      Loaded loaded) {
  absl::StatusOr<ModelSource> source = SourceOf(wanted);
  if (!source.ok()) return loaded(source.status());
  const auto on_replaced = [this, moving](std::shared_ptr<Engine> engine) {
    Leaving leaving;
    leaving.engine = std::move(engine);
    leaving.deadline = moving.drain_timeout.has_value()
                           ? MonotonicTime::Now() + *moving.drain_timeout
                           : MonotonicTime::InfiniteFuture();
    leaving.grace = options_.grace;
    leaving.moves = moving.recompute_sessions;
    if (leaving.moves) sessions_->MoveStoredSessionsOf(leaving.engine->model());
    Leave(std::move(leaving));
  };
  models_->Swap(*std::move(source),
                {std::move(progress),
                 [operation = Operation(), loaded = std::move(loaded)](
                     absl::StatusOr<ModelStatus> status) { loaded(std::move(status)); },
                 on_replaced});
}

void ModelAdmin::Unload(std::string_view name, std::optional<absl::Duration> grace,
                        std::function<void(absl::Status)> unloaded) {
  absl::StatusOr<std::vector<std::shared_ptr<Engine>>> engines;
  absl::Status removed =
      aliases_.RemoveModel(name, [&] { engines = models_->BeginUnloadUntold(name); });
  if (!removed.ok()) return unloaded(std::move(removed));
  if (engines.ok()) models_->Tell(std::string(name));
  if (!engines.ok() || engines->empty()) return unloaded(engines.status());
  const auto unloading = std::make_shared<Unloading>(engines->size(), std::move(unloaded));
  for (const std::shared_ptr<Engine>& engine : *engines) {
    Leaving leaving;
    leaving.engine = engine;
    leaving.ends_turns = true;
    leaving.deadline = MonotonicTime::Now() + grace.value_or(options_.grace);
    leaving.unloading = unloading;
    Leave(std::move(leaving));
  }
}

std::vector<ModelAdmin::Model> ModelAdmin::List() const {
  std::vector<Model> models;
  for (ModelStatus& status : models_->ListVersions()) {
    Model& model = models.emplace_back();
    if (status.engine != nullptr) model.sessions = sessions_->NumSessionsOn(*status.engine);
    model.status = std::move(status);
  }
  return models;
}

// ---------------------------------------------------------------- versions that are unloaded

void ModelAdmin::Unloading::Finish(const absl::Status& status) {
  std::function<void(absl::Status)> unloaded;
  {
    absl::MutexLock lock(&mutex_);
    --left_;
    if (left_ == 0 || !status.ok()) unloaded = std::exchange(unloaded_, nullptr);
  }
  if (unloaded) unloaded(status);
}

void ModelAdmin::Leave(Leaving leaving) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) return arriving_.push_back(std::move(leaving));
  }
  Refuse(leaving);
}

void ModelAdmin::Run() {
  GrowingPause pause(kLeastPause, kMostPause);
  while (true) {
    std::list<Leaving> arrived;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !arriving_.empty();
      };
      mutex_.AwaitWithTimeout(absl::Condition(&has_news),
                              leaving_.empty() ? absl::InfiniteDuration() : pause.Next());
      if (stopping_) return;
      arrived.swap(arriving_);
    }
    bool has_changed = !arrived.empty();
    // A version that was replaced may now be unloaded with its name.
    while (!arrived.empty()) {
      const Engine* const engine = arrived.front().engine.get();
      leaving_.remove_if([engine](const Leaving& other) { return other.engine.get() == engine; });
      leaving_.splice(leaving_.end(), arrived, arrived.begin());
    }
    leaving_.remove_if([&](Leaving& leaving) {
      has_changed |= NoteUses(leaving);
      return Advance(leaving);
    });
    if (has_changed) pause.Reset();
  }
}

bool ModelAdmin::NoteUses(Leaving& leaving) const {
  const EngineUses::Count uses = sessions_->uses().of(*leaving.engine);
  const size_t turns = leaving.engine->num_turns();
  if (uses == leaving.uses && turns == leaving.turns) return false;
  leaving.uses = uses;
  leaving.turns = turns;
  return true;
}

bool ModelAdmin::Move(Leaving& leaving, MonotonicTime now) {
  if (!leaving.moves) return false;
  MovePass& pass = leaving.pass;
  if (now >= leaving.move_at) {
    sessions_->MoveSessions(*leaving.engine, &pass);
    if (pass.begun > 0) leaving.pause.Reset();
    leaving.move_at = now + leaving.pause.Next();
  }
  return pass.next != nullptr || pass.left > 0;
}

bool ModelAdmin::BeginUnload(const Leaving& leaving, MonotonicTime now) const {
  Engine& engine = *leaving.engine;
  if (sessions_->uses().UnloadIfFree(engine)) return true;
  if (now < leaving.deadline) return false;
  // The calls that found this version before it was replaced are about to begin.
  if (sessions_->uses().UnloadIfNoCall(engine)) return true;
  if (now < leaving.deadline + leaving.grace) return false;
  engine.BeginUnload();
  return true;
}

bool ModelAdmin::Advance(Leaving& leaving) {
  Engine& engine = *leaving.engine;
  const MonotonicTime now = MonotonicTime::Now();
  if (!leaving.ends_turns) {
    Move(leaving, now);
    if (!BeginUnload(leaving, now)) return false;
    leaving.ends_turns = true;
    leaving.deadline = now + leaving.grace;
  }
  if (engine.num_turns() > 0) {
    if (now >= leaving.deadline) engine.AbortAll(Unloaded(engine));
    return false;
  }
  if (!leaving.moves_until.has_value()) {
    leaving.moves_until = now + kMostMoving;
    leaving.move_at = now;
    leaving.pass = {};
    leaving.sessions = leaving.uses.sessions;
  }
  // No turn runs, so only the store delays the sessions that can move.
  const size_t before = std::exchange(leaving.sessions, leaving.uses.sessions);
  if (leaving.sessions < before) leaving.moves_until = now + kMostMoving;
  if (Move(leaving, now) && now < *leaving.moves_until) return false;
  sessions_->EndSessionsOn(engine);
  models_->Retire(leaving.engine, [this, operation = Operation(), unloading = leaving.unloading,
                                   engine = leaving.engine](const absl::Status& status) {
    // A session may have begun on the engine before it was stopped.
    if (status.ok()) sessions_->EndSessionsOn(*engine);
    if (unloading != nullptr) unloading->Finish(status);
  });
  return true;
}

}  // namespace longstream
