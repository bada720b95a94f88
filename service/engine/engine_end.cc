// How an engine ends: with its model when the model is unloaded, or alone when the server stops.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"

namespace longstream {

Engine::~Engine() {
  if (!thread_.joinable()) return;  // after Stop
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_reason_ = absl::UnavailableError("the server is shutting down");
  }
  thread_.join();
}

void Engine::Stop(const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    stop_reason_ = why;
    closes_model_ = true;
  }
  unloading_.store(true);
  thread_.join();
  {
    absl::MutexLock lock(&metrics_mutex_);
    shared_metrics_ = nullptr;
  }
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    runs_late_ = true;
  }
  RunLate();
}

absl::Status Engine::CheckOpen() const {
  if (draining_.load()) return absl::UnavailableError("the server is draining");
  if (!unloading()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model ", model_->name(), ": this model was unloaded"));
}

void Engine::CountRefusal(const absl::Status& status) const {
  absl::MutexLock lock(&metrics_mutex_);
  if (shared_metrics_ == nullptr) return;
  shared_metrics_->CountRequest(absl::StatusCodeToString(status.code()), "");
}

void Engine::CountResumed(std::string_view how) const {
  absl::MutexLock lock(&metrics_mutex_);
  if (shared_metrics_ != nullptr) shared_metrics_->CountResumedTurn(how);
}

void Engine::ShowStoredSessions(uint64_t sessions) const {
  absl::MutexLock lock(&metrics_mutex_);
  if (shared_metrics_ != nullptr) shared_metrics_->SetStoredSessions(sessions);
}

// ---------------------------------------------------------------- after Stop

void Engine::RunLate() {
  while (true) {
    std::vector<Message> messages;
    {
      absl::MutexLock lock(&mutex_);
      if (mailbox_.empty()) {
        runs_late_ = false;
        return;
      }
      messages.swap(mailbox_);
    }
    for (Message& message : messages) message();
  }
}

// ---------------------------------------------------------------- the engine thread

void Engine::EndAll() {
  absl::Status why;
  bool closes_model = false;
  {
    absl::MutexLock lock(&mutex_);
    why = stop_reason_;
    closes_model = closes_model_;
  }
  has_ended_ = true;
  AbortNow(why);
  pipeline_.Drain();
  DropRestores();
  AwaitJournals();
  wakes_.Run();
  num_turns_.fetch_sub(waiting_.size() + running_.size());
  waiting_.clear();
  running_.clear();
  live_.End();
  for (const std::shared_ptr<Session>& session : open_sessions_) {
    session->Close();
    session->caches().Free();
    if (closes_model) session->ChargeCaches();
  }
  if (!closes_model) return;
  // The sessions may hold the engine.
  std::exchange(open_sessions_, {}).clear();
  model_->backend().Close();
}

void Engine::AbortNow(const absl::Status& why) {
  DropIdleWork();
  for (auto* turns : {&waiting_, &running_}) {
    for (const std::unique_ptr<ActiveTurn>& turn : *turns) turn->Abort(why);
  }
  background_.EndAll(why);
}

void Engine::AwaitJournals() {
  constexpr absl::Duration kPeriod = absl::Milliseconds(20);
  while (true) {
    EndAborted();
    const auto waits = [](const std::unique_ptr<ActiveTurn>& turn) { return turn->concluding(); };
    if (std::none_of(waiting_.begin(), waiting_.end(), waits) &&
        std::none_of(running_.begin(), running_.end(), waits)) {
      return;
    }
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&woken_), kPeriod);
    woken_ = false;
  }
}

}  // namespace longstream
