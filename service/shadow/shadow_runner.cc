// The loop of the thread.
#include "service/shadow/shadow_runner.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace longstream {
namespace {

ShadowDrop ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return ShadowDrop::kStopped;
    case absl::StatusCode::kResourceExhausted:
      return ShadowDrop::kMemory;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:
      return ShadowDrop::kModel;
    default:
      return ShadowDrop::kFailed;
  }
}

}  // namespace

ShadowRunner::ShadowRunner(std::shared_ptr<ShadowQueue> queue, FindEngine find,
                           std::shared_ptr<LiveWork> live, ShadowMetrics* metrics)
    : queue_(std::move(queue)),
      find_(std::move(find)),
      live_(std::move(live)),
      metrics_(metrics),
      on_quiet_(live_, [this] { Wake(); }),
      thread_([this] { Run(); }) {}

void ShadowRunner::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (current_ != nullptr) current_->Cancel();
  }
  queue_->Close();
  if (thread_.joinable()) thread_.join();
}

void ShadowRunner::Wake() {
  absl::MutexLock lock(&mutex_);
  if (current_ != nullptr) current_->Wake();
}

void ShadowRunner::Run() {
  while (std::optional<ShadowTurn> turn = queue_->Pop()) Replay(*std::move(turn));
}

void ShadowRunner::Replay(ShadowTurn turn) {
  absl::StatusOr<std::shared_ptr<Engine>> model = find_(turn.model);
  absl::StatusOr<std::shared_ptr<Engine>> shadow = find_(turn.shadow);
  if (!model.ok() || !shadow.ok()) return queue_->CountDrop(turn, ShadowDrop::kModel);
  const std::optional<ShadowDrop> refusal =
      WhyNotReplayed(turn, (*model)->model(), (*shadow)->model());
  if (refusal.has_value()) return queue_->CountDrop(turn, *refusal);
  const auto replay =
      std::make_shared<ShadowReplay>(std::move(turn), *std::move(model), *std::move(shadow));
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return queue_->CountDrop(replay->turn(), ShadowDrop::kStopped);
    current_ = replay;
  }
  const ShadowReplay::Result result = replay->Run(*live_);
  {
    absl::MutexLock lock(&mutex_);
    current_ = nullptr;
  }
  if (!result.status.ok()) return queue_->CountDrop(replay->turn(), ReasonOf(result.status));
  metrics_->AddTurn(replay->turn().model, replay->turn().shadow, result.kl, result.agreements);
}

}  // namespace longstream
