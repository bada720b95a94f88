// Starts the two turns, and compares their rows.
#include "service/shadow/shadow_replay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/time/time.h"
#include "backends/api/backend.h"
#include "service/engine/logits/logit_sink.h"
#include "service/models/backend_model.h"
#include "service/sessions/session_id.h"
#include "service/sessions/turn_lease.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

// The rows of an arm that the other has not given yet. Two steps may add some megabytes.
constexpr uint64_t kBufferBytes = uint64_t{4} << 20;

// The first token of the answer that has a row: no token comes before the first one of all.
uint64_t FirstRow(const ShadowTurn& turn) { return std::max<uint64_t>(turn.answer_begin, 1); }

}  // namespace

std::optional<ShadowDrop> WhyNotReplayed(const ShadowTurn& turn, const ServedModel& model,
                                         const ServedModel& shadow) {
  const ls_model_info& of_model = model.backend().info();
  const ls_model_info& of_shadow = shadow.backend().info();
  if (model.tokenizer().fingerprint() != shadow.tokenizer().fingerprint() ||
      of_model.vocabulary_size != of_shadow.vocabulary_size) {
    return ShadowDrop::kTokenizer;
  }
  if (turn.tokens.size() > std::min(of_model.context_limit, of_shadow.context_limit)) {
    return ShadowDrop::kTooLong;
  }
  for (const ServedModel* const each : {&model, &shadow}) {
    if (!each->backend().plugin().Can(LS_CAP_SCORE)) return ShadowDrop::kFailed;
  }
  return std::nullopt;
}

// Passes the rows of an arm on, and its end.
class ShadowReplay::Sink final : public LogitSink {
 public:
  Sink(std::shared_ptr<ShadowReplay> replay, size_t arm)
      : rows_(replay->join_->SinkOf(arm)), replay_(std::move(replay)), arm_(arm) {}

  Room GetRoom() override { return rows_->GetRoom(); }
  void Push(const LogitRow& row) override { rows_->Push(row); }
  uint64_t rows_taken() const override { return rows_->rows_taken(); }
  void Ended(const absl::Status& status) override { replay_->ArmEnded(arm_, status); }

 private:
  const std::shared_ptr<LogitSink> rows_;
  const std::shared_ptr<ShadowReplay> replay_;
  const size_t arm_;
};

ShadowReplay::ShadowReplay(ShadowTurn turn, std::shared_ptr<Engine> model,
                           std::shared_ptr<Engine> shadow)
    : turn_(std::move(turn)), engines_{std::move(model), std::move(shadow)} {}

void ShadowReplay::Wake() {
  absl::MutexLock lock(&mutex_);
  has_news_ = true;
}

void ShadowReplay::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  has_news_ = true;
}

void ShadowReplay::ArmEnded(size_t arm, const absl::Status& status) {
  join_->End(arm, !status.ok());
  absl::MutexLock lock(&mutex_);
  if (!ends_[arm].has_value()) ends_[arm] = status;
  has_news_ = true;
}

void ShadowReplay::Start() {
  RowJoin::Options options;
  options.comparable.assign(kArms, true);
  options.buffer_bytes = kBufferBytes;
  // The turns hold the sinks, and the sinks hold this object.
  options.wake = [this] { Wake(); };
  options.drained = [this](size_t arm) { engines_[arm]->Wake(); };
  join_ = std::make_shared<RowJoin>(std::move(options));
  for (size_t arm = 0; arm < kArms; ++arm) {
    TurnRequest request;
    request.kind = TurnKind::kScore;
    request.prompt = turn_.tokens;
    request.priority = Priority::kLow;
    request.own_session = true;
    request.background = true;
    request.logits = std::make_shared<Sink>(shared_from_this(), arm);
    request.logits_from = FirstRow(turn_);
    turns_[arm] = std::make_shared<Turn>(std::move(request));
  }
  for (size_t arm = 0; arm < kArms; ++arm) {
    const ServedModel& model = engines_[arm]->model();
    const absl::Status status = engines_[arm]->Start(
        turns_[arm],
        TurnLease::OfNewSession(SessionId{}, model.name(), model.backend().info().context_limit,
                                absl::InfiniteDuration()));
    if (!status.ok()) ArmEnded(arm, status);
  }
}

absl::Status ShadowReplay::AwaitNews() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&has_news_));
  has_news_ = false;
  if (cancelled_) return absl::CancelledError("the replay was cancelled");
  return FirstError();
}

void ShadowReplay::CancelTurns() {
  for (size_t arm = 0; arm < kArms; ++arm) {
    turns_[arm]->Cancel();
    engines_[arm]->Wake();
  }
}

bool ShadowReplay::HaveEnded() const {
  absl::MutexLock lock(&mutex_);
  return std::all_of(ends_.begin(), ends_.end(), [](const auto& end) { return end.has_value(); });
}

absl::Status ShadowReplay::TakeRows(const LiveWork& live, Result* result) {
  while (live.BackgroundQuietSince() != MonotonicTime::InfiniteFuture()) {
    const std::optional<ComparedRow> row = join_->Next();
    if (!row.has_value()) break;
    for (const ComparedPair& pair : row->pairs) {
      if (!pair.kl.has_value() || std::isnan(*pair.kl)) {
        return absl::InternalError("the logits of a token are not numbers");
      }
      result->kl.push_back(*pair.kl);
      result->agreements += pair.same_best ? 1 : 0;
    }
  }
  return absl::OkStatus();
}

ShadowReplay::Result ShadowReplay::Run(const LiveWork& live) {
  Result result;
  Start();
  while (true) {
    absl::Status status = AwaitNews();
    if (status.ok()) status = TakeRows(live, &result);
    if (!status.ok() && result.status.ok()) {
      result.status = std::move(status);
      CancelTurns();
    }
    if (!HaveEnded()) continue;
    if (!result.status.ok()) break;
    if (join_->IsDone(0) && join_->IsDone(1)) {
      result.status = Failure();
      break;
    }
  }
  join_->Clear();
  turns_ = {};
  engines_ = {};
  return result;
}

absl::Status ShadowReplay::FirstError() const {
  for (const std::optional<absl::Status>& end : ends_) {
    if (end.has_value() && !end->ok()) return *end;
  }
  return absl::OkStatus();
}

absl::Status ShadowReplay::Failure() const {
  absl::MutexLock lock(&mutex_);
  return FirstError();
}

}  // namespace longstream
