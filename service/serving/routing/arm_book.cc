// Keeps the costs of models, and has them measured.
#include "service/serving/routing/arm_book.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/routing/costs_file.h"

namespace longstream {
namespace {

// English text, whose tokens say how many bytes a token has.
constexpr std::string_view kSample =
    "The model reads the prompt once and then writes one token after the other. Each layer with "
    "full "
    "attention looks at every earlier token, so its cost grows with the length of the text. A "
    "layer "
    "with a window looks at the last few hundred tokens only, and a recurrent layer keeps a state "
    "of "
    "constant size; both cost the same wherever they are in the text. Which of them is faster on a "
    "given machine depends on its memory, on its processor, and on how long the text is.";

double BytesPerToken(const Tokenizer& tokenizer) {
  const absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(kSample);
  if (!ids.ok() || ids->empty()) return 1.0;
  return static_cast<double>(kSample.size()) / static_cast<double>(ids->size());
}

std::string Summary(const std::string& model, const ArmCosts& costs, bool is_from_file) {
  return absl::StrFormat(
      "costs of model %s %s: %.3g ms a prompt token and %.3g ms a generated token without context, "
      "%.3g and %.3g ms more behind each 1000 tokens; measured to a depth of %u tokens",
      model, is_from_file ? "were read from their file" : "were measured", costs.prefill.base * 1e3,
      costs.decode.base * 1e3, costs.prefill.slope * 1e6, costs.decode.slope * 1e6,
      costs.measured_depth);
}

}  // namespace

struct ArmBook::Shared {
  absl::Mutex mutex;
  ArmBook* book ABSL_GUARDED_BY(mutex) = nullptr;  // nullptr: it is gone
};

ArmBook::ArmBook(Options options)
    : options_(std::move(options)),
      shared_(std::make_shared<Shared>()),
      thread_([this] { Run(); }) {
  absl::MutexLock lock(&shared_->mutex);
  shared_->book = this;
}

ArmBook::~ArmBook() {
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->book = nullptr;
  }
  Stop();
  thread_.join();
}

void ArmBook::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  jobs_.clear();
  later_.clear();
}

void ArmBook::SetWanted(const std::set<std::string>& models) {
  absl::MutexLock lock(&mutex_);
  wanted_.clear();
  wanted_.insert(models.begin(), models.end());
}

bool ArmBook::IsWanted(std::string_view model) const {
  absl::MutexLock lock(&mutex_);
  return wanted_.contains(model);
}

std::optional<ArmCosts> ArmBook::Find(std::string_view model) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  return found == entries_.end() ? std::nullopt : found->second.costs;
}

void ArmBook::Put(const std::string& model, const ArmCosts& costs) {
  absl::MutexLock lock(&mutex_);
  entries_[model].costs = costs;
}

void ArmBook::Forget(std::string_view model) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found != entries_.end()) entries_.erase(found);
}

void ArmBook::Post(Job job) {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) jobs_.push_back(std::move(job));
}

void ArmBook::PostAt(MonotonicTime at, Job job) {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) later_.emplace(at, std::move(job));
}

ArmBook::Job ArmBook::Next() {
  absl::MutexLock lock(&mutex_);
  const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !jobs_.empty();
  };
  while (!has_news()) {
    if (later_.empty()) {
      mutex_.Await(absl::Condition(&has_news));
      continue;
    }
    // Only this thread adds to later_, so its first one stays the first while this thread waits.
    const auto first = later_.begin();
    const absl::Duration left = first->first - MonotonicTime::Now();
    if (left <= absl::ZeroDuration()) {
      jobs_.push_back(std::move(first->second));
      later_.erase(first);
    } else {
      mutex_.AwaitWithTimeout(absl::Condition(&has_news), left);
    }
  }
  if (stopping_) return nullptr;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

void ArmBook::Run() {
  while (const Job job = Next()) job();
}

void ArmBook::Measure(const std::shared_ptr<Engine>& engine) {
  const std::string& model = engine->model().name();
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    Entry& entry = entries_[model];
    if (entry.engine == engine.get() && (entry.is_pending || entry.is_known)) return;
    if (entry.engine != engine.get()) {
      entry.repetitions = 0;
      entry.is_known = entry.is_repeating = false;
      entry.is_loading = std::make_shared<std::atomic<bool>>(false);
    }
    // The costs of an earlier version count until those of this one are known.
    entry.engine = engine.get();
    entry.is_pending = true;
  }
  Post([this, weak = std::weak_ptr<Engine>(engine)] { Begin(weak); });
}

void ArmBook::MeasureAndWait(const std::shared_ptr<Engine>& engine) {
  const std::string& model = engine->model().name();
  if (!IsWanted(model)) return;
  Measure(engine);
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(model);
  if (entry == entries_.end()) return;
  const std::shared_ptr<std::atomic<bool>> is_loading = entry->second.is_loading;
  if (is_loading != nullptr) is_loading->store(true);
  const auto is_settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const auto found = entries_.find(model);
    return stopping_ || found == entries_.end() || !found->second.is_pending;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&is_settled), 3 * options_.most_time + absl::Seconds(10));
  if (is_loading != nullptr) is_loading->store(false);
}

void ArmBook::Begin(const std::weak_ptr<Engine>& engine) {
  const std::shared_ptr<Engine> live = engine.lock();
  if (live == nullptr) return;
  const CostsPlace place = PlaceOf(live->model());
  if (!place.path.empty()) {
    const absl::StatusOr<ArmCosts> kept = ReadCostsFile(place.path, place.key);
    if (kept.ok()) return End(engine, *kept, /*is_from_file=*/true);
    if (!absl::IsNotFound(kept.status())) {
      Log(absl::StrCat("costs of model ", live->model().name(), " are measured anew: ", place.path,
                       ": ", kept.status().message()));
    }
  }
  waiting_.push_back(engine);
  StartNext();
}

void ArmBook::StartNext() {
  while (!is_measuring_ && !waiting_.empty()) {
    const std::weak_ptr<Engine> next = std::move(waiting_.front());
    waiting_.pop_front();
    is_measuring_ = Start(next);
  }
}

bool ArmBook::Start(const std::weak_ptr<Engine>& engine) {
  const std::shared_ptr<Engine> live = engine.lock();
  if (live == nullptr) return false;
  ArmMeasurement::Limits limits;
  limits.max_batch_tokens = live->model().source().max_batch_tokens;
  limits.most_depth = options_.most_depth;
  limits.most_time = options_.most_time;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(live->model().name());
    if (found == entries_.end() || found->second.engine != live.get()) return false;
    limits.is_loading = found->second.is_loading;
  }
  live->RunWhenIdle(std::make_unique<ArmMeasurement>(
      limits, [shared = shared_, engine](const std::optional<ArmCosts>& costs) {
        absl::MutexLock lock(&shared->mutex);
        ArmBook* const book = shared->book;
        if (book == nullptr) return;
        book->Post([book, engine, costs] { book->EndMeasurement(engine, costs); });
      }));
  return true;
}

void ArmBook::EndMeasurement(const std::weak_ptr<Engine>& engine,
                             const std::optional<ArmCosts>& costs) {
  is_measuring_ = false;
  End(engine, costs, /*is_from_file=*/false);
  StartNext();
}

void ArmBook::End(const std::weak_ptr<Engine>& engine, std::optional<ArmCosts> costs,
                  bool is_from_file) {
  const std::shared_ptr<Engine> live = engine.lock();
  if (live == nullptr) return;
  const std::string& model = live->model().name();
  if (costs.has_value()) costs->bytes_per_token = BytesPerToken(live->model().tokenizer());
  const bool is_known =
      costs.has_value() &&
      (is_from_file ||
       costs->measured_depth >= std::min(ArmMeasurement::kKeptDepth, costs->context_limit / 2));
  const absl::Duration delay = Settle(*live, costs, is_known);
  if (costs.has_value()) {
    Log(Summary(model, *costs, is_from_file));
  } else {
    Log(absl::StrCat("costs of model ", model,
                     " could not be measured: there is no memory, turns have interrupted it, or it "
                     "has stopped"));
  }
  if (delay != absl::InfiniteDuration()) {
    Log(absl::StrCat("model ", model, " is measured again in ", absl::FormatDuration(delay)));
    PostAt(MonotonicTime::Now() + delay, [this, engine] { Repeat(engine); });
  }
  if (is_from_file || !is_known) return;
  const CostsPlace place = PlaceOf(live->model());
  if (place.path.empty()) return;
  const absl::Status written = WriteCostsFile(place.path, place.key, *costs);
  if (!written.ok()) {
    Log(absl::StrCat("costs of model ", model, " are not kept: ", written.message()));
  }
}

absl::Duration ArmBook::Settle(const Engine& engine, const std::optional<ArmCosts>& costs,
                               bool is_known) {
  absl::MutexLock lock(&mutex_);
  const std::string& model = engine.model().name();
  const auto found = entries_.find(model);
  // A later version may be measured now, or the model is forgotten.
  if (found == entries_.end() || found->second.engine != &engine) return absl::InfiniteDuration();
  Entry& entry = found->second;
  entry.is_pending = false;
  entry.is_known = is_known;
  if (costs.has_value()) entry.costs = costs;
  const bool is_enough = costs.has_value() && entry.repetitions >= kMostRepetitions;
  if (is_known || is_enough || entry.is_repeating || !wanted_.contains(model)) {
    return absl::InfiniteDuration();
  }
  entry.is_repeating = true;
  // The shift has a limit, because the number of repetitions has none.
  const int64_t factor = int64_t{1} << std::min(entry.repetitions++, 10);
  return std::min(factor * options_.retry_delay, kMostRetryDelay);
}

void ArmBook::Repeat(const std::weak_ptr<Engine>& engine) {
  const std::shared_ptr<Engine> live = engine.lock();
  if (live == nullptr) return;
  const std::string& model = live->model().name();
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (found == entries_.end() || found->second.engine != live.get()) return;
    found->second.is_repeating = false;
    if (found->second.is_pending || found->second.is_known) return;
    if (!wanted_.contains(model)) return;
    found->second.is_pending = true;
  }
  Begin(engine);
}

CostsPlace ArmBook::PlaceOf(const ServedModel& model) const {
  return options_.place ? options_.place(model) : PlaceOfCosts(model, options_.threads);
}

void ArmBook::Log(const std::string& sentence) const {
  if (options_.log) options_.log(sentence);
}

}  // namespace longstream
