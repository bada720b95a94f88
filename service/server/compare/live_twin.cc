// Brings the rows of a turn and of its twin together.
#include "service/server/compare/live_twin.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

constexpr size_t kTurnArm = 0;
constexpr size_t kTwinArm = 1;
// A message has at most so many rows.
constexpr int kMostRowsOfMessage = 64;
// Rows that wait for a client that is slow to read. When there are so many, no further ones are
// compared. The turn pauses earlier, when its own stream is full.
constexpr size_t kMostWaitingRows = 16384;
// Compute goes on later after so many rows, so that other comparisons get the thread.
constexpr int kRowsAtOnce = 64;

}  // namespace

// Where the turn writes. Its turn may hold it for longer than the call lasts, so it does not keep
// the twin or its buffers.
class LiveTwin::TurnSink final : public LogitSink {
 public:
  // `most_bytes`: the twin is lost when the buffer of the turn holds so many.
  TurnSink(std::weak_ptr<LiveTwin> twin, std::shared_ptr<FollowedTokens> followed,
           uint64_t most_bytes)
      : most_bytes_(most_bytes), twin_(std::move(twin)), followed_(std::move(followed)) {}

  void Began() override {
    if (const auto twin = twin_.lock()) twin->Start();
  }
  void WaitsAgain() override {
    Lose(absl::ResourceExhaustedError("the turn waits for memory, so the twin gives up its own"));
  }
  Room GetRoom() override { return Room::kFree; }
  uint64_t rows_taken() const override { return 0; }
  bool WantsRows() const override { return open_.load(std::memory_order_acquire); }
  bool GoesOnWithout(const absl::Status& why) override {
    Lose(why);
    return true;
  }
  void Push(const LogitRow& row) override ABSL_LOCKS_EXCLUDED(mutex_) {
    std::shared_ptr<RowJoin> join;
    std::shared_ptr<FollowedTokens> followed;
    {
      absl::MutexLock lock(&mutex_);
      join = join_;
      followed = followed_;
    }
    if (join == nullptr) return;
    if (join->buffered_bytes(kTurnArm) >= most_bytes_) {
      return Lose(absl::ResourceExhaustedError(
          "the twin is too slow: the buffer for the tokens of the turn is full"));
    }
    // The row first: every row of the twin finds that of the turn.
    join->SinkOf(kTurnArm)->Push(row);
    followed->Push(row.token);
  }

  // The call may hear of the end much later, or never, because its client reads nothing.
  void Ended(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    if (const auto twin = twin_.lock()) {
      if (!status.ok()) return twin->Drop(status);
      twin->LimitTime();
    }
    std::shared_ptr<FollowedTokens> followed;
    {
      absl::MutexLock lock(&mutex_);
      followed = followed_;
    }
    if (followed != nullptr) followed->Close();
  }

  // Rows go there from now on.
  void Open(std::shared_ptr<RowJoin> join) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (WantsRows()) join_ = std::move(join);
  }
  // The turn gives no further rows.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    open_.store(false, std::memory_order_release);
    std::shared_ptr<RowJoin> join;
    std::shared_ptr<FollowedTokens> followed;
    absl::MutexLock lock(&mutex_);
    join.swap(join_);
    followed.swap(followed_);
  }

 private:
  void Lose(const absl::Status& why) {
    if (const auto twin = twin_.lock()) twin->Lose(why);
  }

  const uint64_t most_bytes_;
  const std::weak_ptr<LiveTwin> twin_;
  std::atomic<bool> open_{true};
  absl::Mutex mutex_;
  std::shared_ptr<RowJoin> join_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<FollowedTokens> followed_ ABSL_GUARDED_BY(mutex_);
};

LiveTwin::LiveTwin(TwinPlan plan, CompareTools tools, std::function<void()> ready)
    : plan_(std::move(plan)),
      model_(plan_.model),
      tools_(std::move(tools)),
      ready_(std::move(ready)) {}

// ---------------------------------------------------------------- the beginning

absl::Status LiveTwin::TakeMemory() {
  const uint32_t vocabulary = plan_.turn->model().backend().info().vocabulary_size;
  const uint64_t tokens = plan_.most_tokens;
  const uint64_t buffer = tools_.limits.buffer_bytes;
  uint64_t bytes = 2 * RowJoin::MostBytes(buffer, vocabulary, /*rows_of_step=*/1, tokens);
  bytes += std::min(tokens * RowJoin::kRowBytes, buffer);  // the turn's rows without logits
  bytes += std::min<uint64_t>(tokens, kMostWaitingRows) * sizeof(Row);
  bytes += tokens * sizeof(int32_t);  // followed_
  charge_ = HostCharge(plan_.turn->host_memory());
  absl::Status status = charge_.Add(bytes);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("the logits of the twin: ", status.message()));
}

std::function<void()> LiveTwin::Waker() {
  return [weak = weak_from_this()] {
    const auto twin = weak.lock();
    if (twin != nullptr && twin->pump_.started()) twin->pump_.turn().Wake();
  };
}

std::shared_ptr<RowJoin> LiveTwin::MakeJoin() {
  RowJoin::Options options;
  options.comparable = {true, true};
  options.buffer_bytes = tools_.limits.buffer_bytes;
  options.baseline_runs_free = true;
  options.wake = [weak = weak_from_this()] {
    if (const auto twin = weak.lock()) twin->Schedule();
  };
  options.drained = [waker = Waker()](size_t arm) {
    if (arm == kTwinArm) waker();
  };
  return std::make_shared<RowJoin>(std::move(options));
}

std::shared_ptr<LogitSink> LiveTwin::MakeSink() {
  absl::MutexLock lock(&mutex_);
  lost_ = plan_.lost;
  if (!lost_.ok()) {
    over_ = true;
    return nullptr;
  }
  followed_ = std::make_shared<FollowedTokens>(Waker());
  sink_ = std::make_shared<TurnSink>(weak_from_this(), followed_, 2 * tools_.limits.buffer_bytes);
  return sink_;
}

void LiveTwin::Start() {
  std::shared_ptr<RowJoin> join;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (over_) return;  // the call has ended
    status = TakeMemory();
    if (status.ok()) join = join_ = MakeJoin();
  }
  NewTurn turn = *std::exchange(plan_.turn, std::nullopt);
  if (status.ok()) {
    sink_->Open(join);
    plan_.request.followed = followed_;
    plan_.request.logits = join->SinkOf(kTwinArm);
    plan_.request.deadline = plan_.deadline;
    status = pump_.Start(std::move(turn), std::move(plan_.request), shared_from_this());
  } else {
    turn.Refuse(status).IgnoreError();
  }
  if (!status.ok()) Drop(status);
}

// ---------------------------------------------------------------- the ends

void LiveTwin::OnEnd(const TurnEnd& end) {
  std::shared_ptr<RowJoin> join;
  {
    absl::MutexLock lock(&mutex_);
    end_ = end;
    if (lost_.ok()) lost_ = end.status;
    join = join_;
  }
  // Without the lock, because End may call Schedule.
  if (join != nullptr) join->End(kTwinArm, /*lost=*/!end.status.ok());
  sink_->Close();
  followed_->Close();
  Schedule();
}

void LiveTwin::Lose(const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    if (over_ || !lost_.ok()) return;
    lost_ = why;
  }
  sink_->Close();
  pump_.Cancel(why);
}

void LiveTwin::GiveUp() {
  Lose(absl::DeadlineExceededError(
      "the twin had not read the answer when the call had waited for it long enough"));
  {
    absl::MutexLock lock(&mutex_);
    given_up_ = true;
  }
  Schedule();
}

void LiveTwin::LimitTime() {
  {
    absl::MutexLock lock(&mutex_);
    if (over_ || std::exchange(has_limit_, true)) return;
  }
  const MonotonicTime now = MonotonicTime::Now();
  const absl::Duration wait =
      std::min(std::max(tools_.limits.twin_limit, now - begin_), (plan_.deadline - now) / 2);
  tools_.timers->Set(now + wait, [weak = weak_from_this()] {
    if (const auto twin = weak.lock()) twin->GiveUp();
  });
}

void LiveTwin::TurnEnded(uint64_t tokens) {
  {
    absl::MutexLock lock(&mutex_);
    tokens_ = tokens;
    if (over_) return;
    given_up_ = !lost_.ok();  // only rows that both turns have are compared
  }
  followed_->Close();
  Schedule();
  LimitTime();
}

void LiveTwin::Drop(const absl::Status& why) {
  if (sink_ == nullptr) return;
  Lose(why);
  followed_->Close();
  absl::MutexLock lock(&mutex_);
  given_up_ = over_ = true;
  rows_.clear();
  FreeJoin();
}

void LiveTwin::FreeJoin() {
  if (join_ != nullptr) join_->Clear();
  join_ = nullptr;
  charge_.Set(rows_.size() * sizeof(Row));
}

// ---------------------------------------------------------------- the rows

void LiveTwin::Schedule() {
  {
    absl::MutexLock lock(&mutex_);
    again_ = true;
    if (std::exchange(busy_, true)) return;
  }
  Post();
}

void LiveTwin::Post() {
  tools_.compute([self = shared_from_this()] { self->Compute(); });
}

void LiveTwin::Compute() {
  for (int rows = 0; rows < kRowsAtOnce;) {
    {
      absl::MutexLock lock(&mutex_);
      again_ = false;
    }
    if (CompareOne()) {
      ++rows;
      continue;
    }
    {
      absl::MutexLock lock(&mutex_);
      EndIfOver();
      if (again_) continue;
      busy_ = false;
    }
    return ready_();
  }
  ready_();
  Post();
}

bool LiveTwin::CompareOne() {
  std::shared_ptr<RowJoin> join;
  {
    absl::MutexLock lock(&mutex_);
    if (rows_.size() < kMostWaitingRows) join = join_;
  }
  // Behind the last row of the twin there are only rows of the turn.
  if (join == nullptr || join->IsDone(kTwinArm)) return false;
  const std::optional<ComparedRow> row = join->Next();
  if (!row.has_value()) return false;
  if (!row->pairs.empty()) Add(*row);
  return true;
}

void LiveTwin::EndIfOver() {
  const bool is_read = end_.has_value() && (join_ == nullptr || join_->IsDone(kTwinArm));
  if (over_ || (!is_read && !given_up_)) return;
  over_ = true;
  FreeJoin();
}

void LiveTwin::Add(const ComparedRow& compared) {
  const ComparedToken& own = compared.tokens[0];
  const ComparedToken& twin = compared.tokens[1];
  const ComparedPair& pair = compared.pairs[0];
  absl::MutexLock lock(&mutex_);
  if (over_) return;
  rows_.push_back({own.token, own.log_prob, twin.log_prob, own.rank, twin.rank, own.best, twin.best,
                   pair.kl, pair.delta_p});
  if (pair.kl.has_value()) {
    ++totals_.kl_rows;
    totals_.sum_kl += *pair.kl;
    totals_.max_kl = std::max(totals_.max_kl, *pair.kl);
  }
  totals_.same_best += pair.same_best ? 1 : 0;
  if (!pair.same_best && !totals_.first_difference.has_value()) {
    totals_.first_difference = totals_.rows;
  }
  totals_.sum_log_prob += own.log_prob;
  totals_.sum_twin_log_prob += twin.log_prob;
  ++totals_.rows;
}

bool LiveTwin::HasRows(uint64_t end) const {
  absl::MutexLock lock(&mutex_);
  return !rows_.empty() && taken_ < end;
}

bool LiveTwin::TakeRows(uint64_t end, v1::TwinRows* message) {
  bool makes_room = false;
  {
    absl::MutexLock lock(&mutex_);
    makes_room = rows_.size() >= kMostWaitingRows;
    // A twin with rows has started.
    const Tokenizer* const tokenizer = rows_.empty() ? nullptr : &pump_.turn().model().tokenizer();
    message->set_first_index(taken_);
    while (!rows_.empty() && taken_ < end && message->rows_size() < kMostRowsOfMessage) {
      const Row& row = rows_.front();
      v1::TwinRow* const to = message->add_rows();
      to->set_token_id(row.token);
      to->set_log_prob(row.log_prob);
      to->set_twin_log_prob(row.twin_log_prob);
      to->set_rank(row.rank);
      to->set_twin_rank(row.twin_rank);
      to->set_best_token(row.best);
      to->set_twin_best_token(row.twin_best);
      if (row.kl.has_value()) to->set_kl(*row.kl);
      to->set_same_best(row.best == row.twin_best);
      to->set_delta_p(row.delta_p);
      to->set_token(std::string(tokenizer->TokenBytes(row.token)));
      to->set_twin_best(std::string(tokenizer->TokenBytes(row.twin_best)));
      rows_.pop_front();
      ++taken_;
    }
    if (over_) charge_.Set(rows_.size() * sizeof(Row));
  }
  if (makes_room) Schedule();
  return !message->rows().empty();
}

bool LiveTwin::IsDone() const {
  absl::MutexLock lock(&mutex_);
  return over_ && rows_.empty();
}

// ---------------------------------------------------------------- the messages

void LiveTwin::ToProto(v1::TwinStarted* message) const {
  absl::MutexLock lock(&mutex_);
  message->set_model(RepairUtf8(model_));
  message->set_comparable(lost_.ok());
  message->set_not_comparable_reason(RepairUtf8(std::string(lost_.message())));
}

void LiveTwin::ToProto(v1::TwinSummary* message) const {
  absl::MutexLock lock(&mutex_);
  absl::Status lost = lost_;
  if (lost.ok() && totals_.rows != tokens_.value_or(0)) {
    lost = absl::FailedPreconditionError("the context of the twin is full");
  }
  message->set_model(RepairUtf8(model_));
  message->set_code(static_cast<int32_t>(lost.code()));
  message->set_error(RepairUtf8(std::string(lost.message())));
  message->set_rows(totals_.rows);
  message->set_kl_rows(totals_.kl_rows);
  message->set_sum_kl(totals_.sum_kl);
  message->set_max_kl(totals_.max_kl);
  message->set_same_best(totals_.same_best);
  if (totals_.first_difference.has_value()) {
    message->set_first_difference(*totals_.first_difference);
  }
  message->set_sum_log_prob(totals_.sum_log_prob);
  message->set_sum_twin_log_prob(totals_.sum_twin_log_prob);
  if (!end_.has_value()) return;
  v1::Finish finish;
  tools_.to_finish(*end_, &finish);
  message->mutable_usage()->Swap(finish.mutable_usage());
}

}  // namespace longstream
