// The buffers of the arms, and what is computed from their rows.
#include "service/compare/row_join.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "service/compare/distribution.h"

namespace longstream {
namespace {

uint64_t LogitBytes(const std::vector<float>& logits) { return logits.size() * sizeof(float); }

void Describe(std::span<const float> logits, ComparedToken* told) {
  told->rank = RankOf(logits, told->token);
  told->best = BestToken(logits);
}

// `baseline`: empty if its logits were dropped. `log_sum`: LogSumExp of the baseline.
ComparedPair PairOf(const std::vector<float>& baseline, double log_sum,
                    const ComparedToken& baseline_token, const std::vector<float>& arm,
                    const ComparedToken& arm_token) {
  const double arm_log_sum = LogSumExp(arm);
  const auto token = static_cast<size_t>(baseline_token.token);
  ComparedPair pair;
  pair.arm = arm_token.arm;
  if (!baseline.empty()) pair.kl = KlDivergence(baseline, log_sum, arm, arm_log_sum);
  pair.same_best = baseline_token.best == arm_token.best;
  const double log_prob =
      baseline.empty() ? double{baseline_token.log_prob} : baseline[token] - log_sum;
  pair.delta_p = std::exp(arm[token] - arm_log_sum) - std::exp(log_prob);
  return pair;
}

}  // namespace

uint64_t RowJoin::MostBytes(uint64_t buffer_bytes, uint32_t vocabulary_size, uint64_t rows_of_step,
                            uint64_t rows) {
  // When the buffer is found full, two steps may be in flight. One more row is being compared.
  const uint64_t row_bytes = uint64_t{vocabulary_size} * sizeof(float) + kRowBytes;
  return std::min((rows + 1) * row_bytes, buffer_bytes + (2 * rows_of_step + 1) * row_bytes);
}

RowJoin::RowJoin(Options options)
    : options_(std::move(options)),
      sinks_(options_.comparable.size()),
      arms_(options_.comparable.size()) {
  for (size_t arm = 0; arm < arms_.size(); ++arm) {
    sinks_[arm].join = this;
    sinks_[arm].arm = arm;
    arms_[arm].is_alone = !options_.comparable[arm];
  }
}

std::shared_ptr<LogitSink> RowJoin::SinkOf(size_t arm) {
  return {shared_from_this(), &sinks_[arm]};
}

bool RowJoin::IsAlone(size_t arm) const {
  if (arm > 0) return arms_[arm].is_alone || arms_[0].is_over();
  return std::all_of(arms_.begin() + 1, arms_.end(),
                     [](const Arm& other) { return other.is_alone || other.is_over(); });
}

bool RowJoin::CanReduce(size_t arm) const {
  return arms_[arm].reduced < arms_[arm].rows.size() && IsAlone(arm);
}

bool RowJoin::CanJoin() const {
  bool any = false;
  for (const Arm& arm : arms_) {
    if (arm.rows.empty() && !arm.ended) return false;
    any |= !arm.rows.empty();
  }
  return any;
}

bool RowJoin::HasWork() const {
  if (CanJoin()) return true;
  for (size_t arm = 0; arm < arms_.size(); ++arm) {
    if (CanReduce(arm)) return true;
  }
  return false;
}

LogitSink::Room RowJoin::GetRoom(size_t arm) {
  if (RunsFree(arm)) return LogitSink::Room::kFree;
  absl::MutexLock lock(&mutex_);
  Arm& own = arms_[arm];
  if (own.bytes >= options_.buffer_bytes) own.full = true;
  if (!own.full) return LogitSink::Room::kFree;
  own.paused = true;
  return CanJoin() || CanReduce(arm) ? LogitSink::Room::kReaderIsBehind
                                     : LogitSink::Room::kOthersAreBehind;
}

bool RowJoin::IsFull(size_t arm) const {
  absl::MutexLock lock(&mutex_);
  return arms_[arm].bytes >= options_.buffer_bytes;
}

void RowJoin::Push(size_t arm, const LogitRow& pushed) {
  Row row;
  row.told.arm = arm;
  row.told.token = pushed.token;
  row.told.log_prob = pushed.log_prob;
  row.told.top.assign(pushed.top.begin(), pushed.top.end());
  row.told.text = pushed.text;
  if (RunsFree(arm) && IsFull(arm)) {
    Describe(pushed.logits, &row.told);
  } else {
    row.logits.assign(pushed.logits.begin(), pushed.logits.end());
  }
  row.bytes = kRowBytes + LogitBytes(row.logits) + row.told.text.size() +
              row.told.top.size() * sizeof(ls_top_token);
  const MonotonicTime now = MonotonicTime::Now();
  bool wakes = false;
  {
    absl::MutexLock lock(&mutex_);
    if (is_cleared_) return;
    Arm& own = arms_[arm];
    if (options_.measures_intervals && own.last_row != MonotonicTime::InfinitePast() &&
        !own.paused) {
      row.told.interval = now - own.last_row;
    }
    own.last_row = now;
    own.paused = false;
    own.bytes += row.bytes;
    own.rows.push_back(std::move(row));
    wakes = reader_waits_ && HasWork();
    if (wakes) reader_waits_ = false;
  }
  if (wakes && options_.wake) options_.wake();
}

void RowJoin::End(size_t arm, bool lost) {
  bool wakes = false;
  {
    absl::MutexLock lock(&mutex_);
    arms_[arm].ended = true;
    arms_[arm].lost = lost;
    wakes = std::exchange(reader_waits_, false);
  }
  if (wakes && options_.wake) options_.wake();
}

std::vector<std::deque<RowJoin::Row>> RowJoin::TakeCleared() {
  std::vector<std::deque<Row>> rows;
  for (Arm& arm : arms_) {
    rows.push_back(std::exchange(arm.rows, {}));
    arm.reduced = 0;
    arm.bytes = 0;
    arm.full = false;
    arm.ended = true;
  }
  return rows;
}

void RowJoin::Clear() {
  std::vector<std::deque<Row>> freed;
  absl::MutexLock lock(&mutex_);
  is_cleared_ = true;
  if (!reduces_) freed = TakeCleared();
}

bool RowJoin::Free(Arm& arm, uint64_t bytes) const {
  arm.bytes -= bytes;
  if (!arm.full || arm.bytes > options_.buffer_bytes / 2) return false;
  arm.full = false;
  return true;
}

bool RowJoin::ReduceOne() {
  size_t arm = 0;
  Row* row = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    while (arm < arms_.size() && !CanReduce(arm)) ++arm;
    if (arm == arms_.size()) return false;
    row = &arms_[arm].rows[arms_[arm].reduced];
    reduces_ = true;
  }
  // Only the reader removes rows, and pushing rows does not move this one.
  if (!row->logits.empty()) Describe(row->logits, &row->told);
  std::vector<std::deque<Row>> freed;
  std::vector<float> dropped;
  bool drained = false;
  {
    absl::MutexLock lock(&mutex_);
    reduces_ = false;
    if (is_cleared_) {
      freed = TakeCleared();
      return false;
    }
    dropped.swap(row->logits);
    row->bytes -= LogitBytes(dropped);
    ++arms_[arm].reduced;
    drained = Free(arms_[arm], LogitBytes(dropped));
  }
  if (drained && options_.drained) options_.drained(arm);
  return true;
}

void RowJoin::NoteDifferences(const std::vector<std::optional<Row>>& rows, uint64_t index) {
  for (size_t arm = 1; arm < arms_.size(); ++arm) {
    Arm& own = arms_[arm];
    if (own.is_alone) continue;
    const bool has_both = rows[0].has_value() && rows[arm].has_value();
    if (has_both && rows[0]->told.token == rows[arm]->told.token) continue;
    own.is_alone = true;
    const bool is_lost =
        (!rows[0].has_value() && arms_[0].lost) || (!rows[arm].has_value() && own.lost);
    const bool has_any = rows[0].has_value() || rows[arm].has_value();
    if (has_any && !is_lost) own.summary.first_difference = index;
  }
}

std::vector<std::optional<RowJoin::Row>> RowJoin::TakeRows(uint64_t* index) {
  std::vector<std::optional<Row>> rows;
  std::vector<size_t> drained;
  {
    absl::MutexLock lock(&mutex_);
    if (!CanJoin()) return rows;
    rows.resize(arms_.size());
    for (size_t arm = 0; arm < arms_.size(); ++arm) {
      Arm& own = arms_[arm];
      if (own.rows.empty()) continue;
      rows[arm] = std::move(own.rows.front());
      own.rows.pop_front();
      if (own.reduced > 0) --own.reduced;
      if (Free(own, rows[arm]->bytes)) drained.push_back(arm);
    }
    *index = next_++;
  }
  for (const size_t arm : drained) {
    if (options_.drained) options_.drained(arm);
  }
  return rows;
}

std::optional<ComparedRow> RowJoin::Next() {
  ComparedRow compared;
  std::vector<std::optional<Row>> rows = TakeRows(&compared.index);
  while (rows.empty()) {
    if (!ReduceOne()) {
      absl::MutexLock lock(&mutex_);
      if (!HasWork()) {
        reader_waits_ = true;
        return std::nullopt;
      }
    }
    rows = TakeRows(&compared.index);
  }
  Compare(rows, NotePairs(rows, compared.index), &compared);
  Count(compared.pairs);
  return compared;
}

std::vector<bool> RowJoin::NotePairs(const std::vector<std::optional<Row>>& rows, uint64_t index) {
  std::vector<bool> is_pair(rows.size());
  absl::MutexLock lock(&mutex_);
  for (size_t arm = 1; arm < rows.size(); ++arm) {
    is_pair[arm] = !arms_[arm].is_alone && rows[0].has_value() && rows[arm].has_value();
  }
  NoteDifferences(rows, index);
  return is_pair;
}

void RowJoin::Compare(std::vector<std::optional<Row>>& rows, const std::vector<bool>& is_pair,
                      ComparedRow* compared) {
  for (std::optional<Row>& row : rows) {
    if (row.has_value() && !row->logits.empty()) Describe(row->logits, &row->told);
  }
  std::optional<double> log_sum;
  for (size_t arm = 1; arm < rows.size(); ++arm) {
    if (!is_pair[arm]) continue;
    if (!log_sum.has_value()) {
      log_sum = rows[0]->logits.empty() ? 0 : LogSumExp(rows[0]->logits);
    }
    compared->pairs.push_back(
        PairOf(rows[0]->logits, *log_sum, rows[0]->told, rows[arm]->logits, rows[arm]->told));
  }
  for (std::optional<Row>& row : rows) {
    if (row.has_value()) compared->tokens.push_back(std::move(row->told));
  }
}

void RowJoin::Count(const std::vector<ComparedPair>& pairs) {
  absl::MutexLock lock(&mutex_);
  for (const ComparedPair& pair : pairs) {
    PairSummary& summary = arms_[pair.arm].summary;
    ++summary.rows;
    if (pair.kl.has_value()) {
      ++summary.kl_rows;
      summary.sum_kl += *pair.kl;
      summary.max_kl = std::max(summary.max_kl, *pair.kl);
    }
    summary.same_best += pair.same_best ? 1 : 0;
  }
}

bool RowJoin::IsDone(size_t arm) const {
  absl::MutexLock lock(&mutex_);
  return arms_[arm].is_over();
}

bool RowJoin::IsWaitedFor(size_t arm) const {
  absl::MutexLock lock(&mutex_);
  const Arm& own = arms_[arm];
  return own.rows.empty() && !own.ended &&
         std::any_of(arms_.begin(), arms_.end(),
                     [](const Arm& other) { return other.full && !other.ended; });
}

PairSummary RowJoin::SummaryOf(size_t arm) const {
  absl::MutexLock lock(&mutex_);
  return arms_[arm].summary;
}

uint64_t RowJoin::rows_taken() const {
  absl::MutexLock lock(&mutex_);
  return next_;
}

uint64_t RowJoin::buffered_bytes(size_t arm) const {
  absl::MutexLock lock(&mutex_);
  return arms_[arm].bytes;
}

}  // namespace longstream
