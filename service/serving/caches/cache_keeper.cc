// One thread writes snapshots, several read them. Turns wait for reads, and for no write.
#include "service/serving/caches/cache_keeper.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/engine/policy/thin_places.h"
#include "service/serving/caches/cache_keys.h"

namespace longstream {
namespace {

// Turns from the head back whose snapshots are thinned out. Older snapshots all stay.
constexpr size_t kMostThinnedTurns = 256;

// Snapshots that have begun at one time, so that the next one begins while one is written.
constexpr size_t kMostBegun = 4;
constexpr size_t kMostWaiting = 4096;
// How long no snapshot begins after an error of the disk, and while turns wait for memory.
constexpr absl::Duration kDiskPause = absl::Seconds(10);
constexpr absl::Duration kMemoryPause = absl::Seconds(1);

constexpr absl::Duration kLastSaves = absl::Seconds(2);

// Threads that read snapshots. With four, up to three slow reads delay no other turn.
constexpr size_t kReaders = 4;

// While turns run, the writing thread rests for this many times the time that it works.
constexpr int kRests = 7;
constexpr absl::Duration kMostRest = absl::Milliseconds(14);

const char* OutcomeOf(const absl::Status& status) {
  if (status.ok()) return "ok";
  if (absl::IsDataLoss(status)) return "damaged";
  if (absl::IsNotFound(status)) return "missing";
  if (absl::IsFailedPrecondition(status)) return "refused";
  if (absl::IsResourceExhausted(status)) return "full";
  if (absl::IsAborted(status)) return "given_up";
  if (absl::IsDeadlineExceeded(status)) return "slow";
  if (absl::IsCancelled(status)) return "cancelled";
  return "failed";
}

bool IsOfTheDisk(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace

CacheKeeper::CacheKeeper(std::shared_ptr<HostMemory> host_memory, store::SessionStore* store,
                         store::CommitQueue* commits, SessionMetrics* metrics)
    : host_memory_(std::move(host_memory)),
      store_(store),
      commits_(commits),
      metrics_(metrics),
      queue_(kMostBegun, kMostWaiting),
      reading_(kReaders),
      writer_([this] { WriteAll(); }) {
  try {
    for (size_t i = 0; i < kReaders; ++i) readers_.emplace_back([this, i] { ReadAll(i); });
  } catch (...) {
    Stop();  // destroying a thread that runs would end the process
    throw;
  }
}

CacheKeeper::~CacheKeeper() { Stop(); }

void CacheKeeper::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) give_up_at_ = MonotonicTime::Now() + kLastSaves;
    stopping_ = true;
    queue_.SetPaused(true);
  }
  if (writer_.joinable()) writer_.join();
  for (std::thread& reader : readers_) {
    if (reader.joinable()) reader.join();
  }
  absl::MutexLock lock(&mutex_);
  const auto all_ended = [this]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return queue_.num_begun() == 0; };
  mutex_.Await(absl::Condition(&all_ended));
  queue_.ForgetWaiting();
}

absl::Status CacheKeeper::MayWrite() {
  absl::MutexLock lock(&mutex_);
  return MonotonicTime::Now() < give_up_at_ ? absl::OkStatus()
                                            : absl::AbortedError("the server is stopping");
}

void CacheKeeper::Pause(absl::Duration time) {
  if (stopping_) return;
  queue_.SetPaused(true);
  resume_at_ = std::max(resume_at_, MonotonicTime::Now() + time);
}

bool CacheKeeper::BeginSave(const std::shared_ptr<KeptCaches>& caches) {
  absl::MutexLock lock(&mutex_);
  if (caches->engine().lacks_memory() && !queue_.paused()) Pause(kMemoryPause);
  return !stopping_ && queue_.Begin(caches);
}

void CacheKeeper::EndSave(const std::shared_ptr<KeptCaches>& caches) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.End(caches);
  }
  SaveWaiting();
}

void CacheKeeper::SaveWaiting() {
  while (true) {
    std::optional<std::shared_ptr<KeptCaches>> next;
    {
      absl::MutexLock lock(&mutex_);
      next = queue_.Next();
    }
    // The engine calls BeginSave or CancelSave for it.
    if (!next.has_value() || (*next)->RequestSave()) return;
  }
}

bool CacheKeeper::Add(SaveJob* job) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  saves_.push_back(std::move(*job));
  return true;
}

void CacheKeeper::Fill(FillJob job) {
  job.fill->SetGivenUp([caches = job.caches, this](const absl::Status& why) { CountRestore(why); });
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = MayRead();
    if (status.ok()) {
      fills_.push_back(std::move(job));
      return;
    }
  }
  if (job.fill->End()) CountRestore(status);
  job.done({status, 0, {}, {}});
}

absl::Status CacheKeeper::MayRead() const {
  if (stopping_) return absl::UnavailableError("the server is stopping");
  const bool hangs = std::all_of(reading_.begin(), reading_.end(),
                                 [](const auto& fill) { return fill != nullptr && fill->taken(); });
  return hangs ? absl::UnavailableError("the disk of the store hangs") : absl::OkStatus();
}

void CacheKeeper::CountRestore(const absl::Status& status) const {
  if (metrics_ != nullptr) metrics_->CountRestore("store", OutcomeOf(status));
}

// --- writing ------------------------------------------------------------------------------------

void CacheKeeper::WriteAll() {
  while (true) {
    std::optional<SaveJob> job;
    bool resumed = false;
    {
      absl::MutexLock lock(&mutex_);
      const bool paused = queue_.paused();
      const auto has_work = [this, paused]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !saves_.empty() || queue_.paused() != paused;
      };
      const absl::Duration wait =
          paused ? resume_at_ - MonotonicTime::Now() : absl::InfiniteDuration();
      mutex_.AwaitWithTimeout(absl::Condition(&has_work), wait);
      if (!saves_.empty()) {
        job = std::move(saves_.front());
        saves_.pop_front();
      } else if (stopping_) {
        return;
      } else if (paused && MonotonicTime::Now() >= resume_at_) {
        queue_.SetPaused(false);
        resumed = true;
      }
    }
    if (resumed) SaveWaiting();
    if (job.has_value()) Write(*std::move(job));
  }
}

absl::StatusOr<NewSegments> CacheKeeper::Plan(SaveJob& job) {
  const SavedCaches& saved = job.saved;
  const ls_snapshot_info& info = saved.snapshot.info();
  NewSegments segments;
  CacheKeys keys(job.row.cache, saved.tokens, saved.feed, job.caches->grid());
  if (!saved.span_ends.empty()) {
    const uint64_t begin = saved.span_ends.size() > 1 ? saved.span_ends.end()[-2] : 0;
    job.row.span = keys.Span(begin, saved.span_ends.back());
  }
  if (info.span_end > info.span_begin) {
    store::SegmentRow span;
    span.key = keys.Span(info.span_begin, info.span_end);
    span.kind = store::SegmentKind::kSpan;
    span.previous = std::exchange(job.row.span, span.key);
    span.begin = info.span_begin;
    span.end = info.span_end;
    segments.span = span;
  }
  store::SegmentRow fixed;
  fixed.key = job.row.fixed = keys.Fixed(job.row.position);
  fixed.kind = store::SegmentKind::kFixed;
  fixed.begin = fixed.end = job.row.position;
  segments.fixed = fixed;
  for (std::optional<store::SegmentRow>* segment : {&segments.span, &segments.fixed}) {
    if (!segment->has_value() || job.caches->writes_all()) continue;
    absl::Status found = store_->FindSegment(job.caches->tenant(), (*segment)->key).status();
    if (found.ok()) {
      segment->reset();  // another session has the same
    } else if (!absl::IsNotFound(found)) {
      return found;
    }
  }
  return segments;
}

absl::StatusOr<std::shared_ptr<store::WrittenSegments>> CacheKeeper::WriteNew(SaveJob& job,
                                                                              uint64_t* bytes) {
  if (absl::Status status = MayWrite(); !status.ok()) return status;
  const absl::StatusOr<NewSegments> segments = Plan(job);
  if (!segments.ok()) return segments.status();
  if (!segments->span.has_value() && !segments->fixed.has_value()) return nullptr;
  absl::StatusOr<std::unique_ptr<store::SegmentWriter>> writer = store_->WriteSegments();
  if (!writer.ok()) return writer.status();
  Engine& engine = job.caches->engine();
  MonotonicTime begin = MonotonicTime::Now();
  const auto rest = [&] {
    // Turns may wait for the pages that the snapshot holds.
    if (engine.num_turns() > 0 && !engine.lacks_memory()) {
      absl::SleepFor(std::min(kRests * (MonotonicTime::Now() - begin), kMostRest));
    }
    begin = MonotonicTime::Now();
    return MayWrite();
  };
  const absl::StatusOr<uint64_t> written =
      WriteSegments(job.saved.snapshot, *segments, **writer, rest);
  if (!written.ok()) return written.status();
  *bytes = *written;
  // Other sessions can have the pages as soon as they are read.
  engine.Free(std::move(job.saved.snapshot));
  return (*writer)->Finish();
}

std::vector<store::TurnNumber> CacheKeeper::SnapshotsToDrop(const store::SnapshotRow& added) {
  absl::StatusOr<std::vector<store::SnapshotRow>> rows =
      store_->Snapshots(added.turn, kMostThinnedTurns);
  if (!rows.ok()) return {};
  // A turn is one place, however many snapshots it has.
  std::map<uint64_t, store::TurnNumber> places;
  for (const store::SnapshotRow& row : *rows) {
    if (row.position < added.position && row.turn != added.turn) places[row.position] = row.turn;
  }
  std::vector<store::TurnNumber> turns;
  std::vector<uint64_t> positions;
  for (const auto& [position, turn] : places) {
    positions.push_back(position);
    turns.push_back(turn);
  }
  positions.push_back(added.position);
  std::vector<store::TurnNumber> dropped;
  for (const size_t i : ThinPlaces(positions)) dropped.push_back(turns[i]);
  return dropped;
}

void CacheKeeper::Write(SaveJob job) {
  const MonotonicTime begin = MonotonicTime::Now();
  uint64_t bytes = 0;
  absl::StatusOr<std::shared_ptr<store::WrittenSegments>> written =
      absl::AbortedError("turns wait for the memory");
  if (!job.caches->engine().lacks_memory()) written = WriteNew(job, &bytes);
  if (job.saved.snapshot.valid()) job.caches->engine().Free(std::move(job.saved.snapshot));
  if (!written.ok()) return Finish(job, written.status());
  Commit(std::move(job), *std::move(written), bytes, begin);
}

void CacheKeeper::Commit(SaveJob job, std::shared_ptr<store::WrittenSegments> written,
                         uint64_t bytes, MonotonicTime begin) {
  store::AddSnapshot change;
  change.tenant = job.caches->tenant();
  change.snapshot = job.row;
  change.written = std::move(written);
  change.drop = SnapshotsToDrop(job.row);
  // std::function can only hold what can be copied.
  const auto held = std::make_shared<SaveJob>(std::move(job));
  std::vector<store::TurnNumber> dropped = change.drop;
  commits_->Submit(std::move(change), [this, held, bytes, begin, dropped = std::move(dropped)](
                                          const absl::StatusOr<store::Applied>& applied) {
    if (applied.ok()) {
      held->caches->Saved(held->row, dropped);
      if (metrics_ != nullptr) {
        metrics_->ObserveSnapshot("write", bytes, MonotonicTime::Now() - begin);
      }
    }
    Finish(*held, applied.status());
  });
}

void CacheKeeper::Finish(const SaveJob& job, const absl::Status& status) {
  if (metrics_ != nullptr) metrics_->CountSave(OutcomeOf(status));
  if (!status.ok()) {
    // A segment that the snapshot needs is missing: the next one has all of them.
    const uint64_t from =
        absl::IsFailedPrecondition(status) ? 0 : job.saved.snapshot.info().span_begin;
    job.caches->NotSaved(from);
    absl::MutexLock lock(&mutex_);
    if (IsOfTheDisk(status)) Pause(kDiskPause);
    if (absl::IsAborted(status)) Pause(kMemoryPause);
    const bool relied_on_others =
        absl::IsFailedPrecondition(status) && !job.saved.span_ends.empty();
    if ((absl::IsAborted(status) || relied_on_others) && !stopping_) queue_.Wait(job.caches);
  }
  EndSave(job.caches);
}

// --- reading ------------------------------------------------------------------------------------

void CacheKeeper::ReadAll(size_t number) {
  while (true) {
    std::optional<FillJob> job;
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      reading_[number] = nullptr;
      const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !fills_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (fills_.empty()) return;
      status = MayRead();
      job = std::move(fills_.front());
      fills_.pop_front();
      reading_[number] = job->fill;
    }
    if (status.ok()) {
      Read(*job);
    } else if (job->fill->End()) {
      CountRestore(status);
      job->done({status, 0, {}, {}});
    }
  }
}

void CacheKeeper::Read(const FillJob& job) {
  if (job.fill->taken()) return;
  const StoredCaches::Filled filled =
      ReadSnapshot(store_, job.caches->tenant(), job.row, *job.fill);
  // Others are of the moment, such as those of the disk.
  const bool is_lasting = absl::IsDataLoss(filled.status) || absl::IsNotFound(filled.status) ||
                          absl::IsFailedPrecondition(filled.status) ||
                          absl::IsInvalidArgument(filled.status);
  if (is_lasting) job.caches->Forget(job.row);
  if (!job.fill->End()) return;
  CountRestore(filled.status);
  if (metrics_ != nullptr && filled.status.ok()) {
    metrics_->ObserveSnapshot("read", filled.bytes, filled.time);
  }
  job.done(filled);
}

}  // namespace longstream
