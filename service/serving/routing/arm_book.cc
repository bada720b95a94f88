// Keeps the costs of models, and has them measured.
#include "service/serving/routing/arm_book.h"

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

void ArmBook::Run() {
  while (true) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !jobs_.empty();
      };
      mutex_.Await(absl::Condition(&has_news));
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

void ArmBook::Measure(const std::shared_ptr<Engine>& engine) {
  const std::string& model = engine->model().name();
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    Entry& entry = entries_[model];
    if (entry.engine == engine.get() && (entry.is_pending || entry.costs.has_value())) return;
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
  const auto is_settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const auto found = entries_.find(model);
    return stopping_ || found == entries_.end() || !found->second.is_pending;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&is_settled), 3 * options_.most_time + absl::Seconds(10));
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
  ArmMeasurement::Limits limits;
  limits.max_batch_tokens = live->model().source().max_batch_tokens;
  limits.most_depth = options_.most_depth;
  limits.most_time = options_.most_time;
  live->RunWhenIdle(std::make_unique<ArmMeasurement>(
      limits, [shared = shared_, engine](const std::optional<ArmCosts>& costs) {
        absl::MutexLock lock(&shared->mutex);
        ArmBook* const book = shared->book;
        if (book == nullptr) return;
        book->Post([book, engine, costs] { book->End(engine, costs, /*is_from_file=*/false); });
      }));
}

void ArmBook::End(const std::weak_ptr<Engine>& engine, std::optional<ArmCosts> costs,
                  bool is_from_file) {
  const std::shared_ptr<Engine> live = engine.lock();
  if (live == nullptr) return;
  const std::string& model = live->model().name();
  if (costs.has_value()) costs->bytes_per_token = BytesPerToken(live->model().tokenizer());
  Settle(*live, costs);
  if (!costs.has_value()) {
    return Log(absl::StrCat("costs of model ", model,
                            " could not be measured: there is no memory, or it has stopped"));
  }
  Log(Summary(model, *costs, is_from_file));
  if (is_from_file) return;
  const CostsPlace place = PlaceOf(live->model());
  if (place.path.empty()) return;
  const absl::Status written = WriteCostsFile(place.path, place.key, *costs);
  if (!written.ok()) {
    Log(absl::StrCat("costs of model ", model, " are not kept: ", written.message()));
  }
}

void ArmBook::Settle(const Engine& engine, const std::optional<ArmCosts>& costs) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(engine.model().name());
  // A later version may be measured now, or the model is forgotten.
  if (found == entries_.end() || found->second.engine != &engine) return;
  found->second.is_pending = false;
  if (costs.has_value()) found->second.costs = costs;
}

CostsPlace ArmBook::PlaceOf(const ServedModel& model) const {
  return options_.place ? options_.place(model) : PlaceOfCosts(model, options_.threads);
}

void ArmBook::Log(const std::string& sentence) const {
  if (options_.log) options_.log(sentence);
}

}  // namespace longstream
