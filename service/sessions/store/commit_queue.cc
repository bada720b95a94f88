// One thread takes all waiting changes, applies them, and answers.
#include "service/sessions/store/commit_queue.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

constexpr size_t kBytesOfAnyChange = 256;

// About how many bytes the change keeps.
size_t BytesOf(const Change& change) {
  const auto text = [](const auto& c) -> size_t {
    using C = std::decay_t<decltype(c)>;
    if constexpr (std::is_same_v<C, OpenSession>) {
      return c.row.properties.size();
    } else if constexpr (std::is_same_v<C, ImportSession>) {
      size_t bytes = c.row.properties.size();
      for (const TurnRow& turn : c.turns) {
        bytes += kBytesOfAnyChange + turn.request.size() + turn.result.size();
      }
      return bytes;
    } else if constexpr (std::is_same_v<C, StartTurn>) {
      return c.turn.request.size();
    } else if constexpr (std::is_same_v<C, CommitTurn> || std::is_same_v<C, AbandonTurn>) {
      return c.result.size();
    } else if constexpr (std::is_same_v<C, AddSnapshot>) {
      return c.written == nullptr ? 0 : c.written->bytes_in_memory();
    } else if constexpr (std::is_same_v<C, PutNotes>) {
      size_t bytes = 0;
      for (const NoteRow& note : c.notes) {
        bytes += sizeof(note) + note.key.size() + note.value.size();
      }
      return bytes;
    } else if constexpr (std::is_same_v<C, PutAlias>) {
      return c.name.size() + c.arms.value_or("").size();
    } else {
      return 0;
    }
  };
  return kBytesOfAnyChange + std::visit(text, change);
}

}  // namespace

CommitQueue::CommitQueue(SessionStore* store, Options options)
    : store_(store), options_(std::move(options)), thread_([this] { Run(); }) {}

CommitQueue::~CommitQueue() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void CommitQueue::Submit(Change change, Done done) {
  const size_t bytes = BytesOf(change);
  const bool is_note = std::holds_alternative<PutNotes>(change);
  const size_t most = is_note ? options_.max_waiting_bytes / 4 : options_.max_waiting_bytes;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_bytes_ <= most && bytes <= most - waiting_bytes_) {
      waiting_bytes_ += bytes;
      waiting_.push_back({std::move(change), std::move(done)});
      return;
    }
  }
  done(absl::ResourceExhaustedError(absl::StrCat("store: a change of ", bytes,
                                                 " bytes does not fit; changes that wait may take ",
                                                 most, " bytes")));
}

absl::Duration CommitQueue::BusyFor() const {
  absl::MutexLock lock(&mutex_);
  return busy_since_ ? MonotonicTime::Now() - *busy_since_ : absl::ZeroDuration();
}

void CommitQueue::Run() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !waiting_.empty();
  };
  while (true) {
    std::vector<Waiting> batch;
    size_t bytes = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (waiting_.empty()) return;
      batch = std::exchange(waiting_, {});
      bytes = waiting_bytes_;
      busy_since_ = MonotonicTime::Now();
    }
    Apply(std::move(batch));
    absl::MutexLock lock(&mutex_);
    waiting_bytes_ -= bytes;  // of the batch; more changes may wait by now
  }
}

void CommitQueue::Apply(std::vector<Waiting> batch) {
  std::vector<Change> changes;
  changes.reserve(batch.size());
  for (Waiting& waiting : batch) changes.push_back(std::move(waiting.change));
  const MonotonicTime begin = MonotonicTime::Now();
  std::vector<absl::StatusOr<Applied>> results = store_->Apply(changes);
  {
    absl::MutexLock lock(&mutex_);
    busy_since_.reset();
  }
  if (options_.on_commit) options_.on_commit(results, MonotonicTime::Now() - begin);
  for (size_t i = 0; i < batch.size(); ++i) batch[i].done(std::move(results[i]));
}

}  // namespace longstream::store
