#include "tests/service/fleet/fake_sessions.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longstream::fleet {
namespace {

class FakeReader : public CacheReader {
 public:
  explicit FakeReader(Content content) : header_(absl::StrCat(content)) {}
  const std::string& header() const override { return header_; }
  uint64_t bytes() const override { return 1; }
  absl::Status Read(size_t /*size*/, std::string* bytes) override {
    bytes->push_back('.');
    return absl::OkStatus();
  }

 private:
  const std::string header_;
};

class FakeWriter : public CacheWriter {
 public:
  FakeWriter(std::shared_ptr<FakeSessions> sessions, Fence at, Content content)
      : sessions_(std::move(sessions)), at_(std::move(at)), content_(content) {}
  absl::Status Write(std::string_view /*bytes*/) override { return absl::OkStatus(); }
  absl::Status Finish() override {
    sessions_->Take(at_, content_);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<FakeSessions> sessions_;
  const Fence at_;
  const Content content_;
};

constexpr absl::Duration kStep = absl::Milliseconds(2);

}  // namespace

void FakeSessions::Start(std::shared_ptr<SessionGate> gate, store::CommitQueue* commits) {
  gate_ = std::move(gate);
  const absl::MutexLock lock(&mutex_);
  commits_ = commits;
}

void FakeSessions::Close() {
  const absl::MutexLock lock(&mutex_);
  commits_ = nullptr;
}

void FakeSessions::After(absl::Duration most, std::function<void()> run) {
  timers_.Set(MonotonicTime::Now() + dice_.Time(most), std::move(run));
}

void FakeSessions::Submit(store::Change change, store::CommitQueue::Done done) {
  {
    const absl::MutexLock lock(&mutex_);
    if (commits_ != nullptr) {
      commits_->Submit(std::move(change), std::move(done));
      return;
    }
  }
  done(absl::UnavailableError("closed"));
}

// ---------------------------------------------------------------- turns

void FakeSessions::RunTurn(const SessionKey& session, const TurnId& turn, Done done) {
  gate_->EnterTurn(session, turn,
                   [self = shared_from_this(), session, turn, done](absl::StatusOr<Entry> entry) {
                     self->Entered(session, turn, done, std::move(entry));
                   });
}

void FakeSessions::AttachTurn(const SessionKey& session, const TurnId& turn, Done done) {
  gate_->AttachRunning(
      session, turn, [self = shared_from_this(), session, turn, done](absl::StatusOr<Entry> entry) {
        self->Entered(session, turn, done, std::move(entry));
      });
}

void FakeSessions::Entered(const SessionKey& session, const TurnId& turn, const Done& done,
                           absl::StatusOr<Entry> entry) {
  if (!entry.ok()) return done(entry.status());
  if (entry->how == Entry::How::kReplay) return done(absl::OkStatus());
  if (entry->how == Entry::How::kRelay) {
    relay_(entry->peer.name, session, turn,
           [gate = gate_, relay = entry->relay, done](const absl::Status& status) {
             gate->RelayEnded(relay, status);
             done(status);
           });
    return;
  }
  if (faulty_ && dice_.Chance(0.05)) {  // the request is wrong: the use is destroyed
    return done(absl::InvalidArgumentError("refused"));
  }
  RunningTurn running;
  if (IsCommittedAt(entry->use->fence(), turn)) return done(absl::OkStatus());
  {
    const absl::MutexLock lock(&mutex_);
    RunningTurn& here = running_[session];
    if (here != nullptr && here->turn == turn) {
      here->readers.push_back(done);
      return;
    }
    if (here == nullptr) {
      here = running = std::make_shared<Running>();
      running->session = session;
      running->turn = turn;
      running->use = std::move(entry->use);
      running->content = ContentAt(running->use->fence());
      running->readers.push_back(done);
    }
  }
  if (running == nullptr) return done(absl::AbortedError("another turn ends"));
  After(kStep, [self = shared_from_this(), running] { self->Admit(running); });
}

// If there is no copy at the fence, the log is read, and says which turns have started and ended.
bool FakeSessions::IsCommittedAt(const Fence& at, const TurnId& turn) {
  const absl::MutexLock lock(&mutex_);
  if (HasCopyAt(at)) return false;
  return database_.WithModel([&](const ModelStore& model) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (model.HasTurn(at.key, turn)) {
      lost_.insert({at.key, turn});
    } else {
      lost_.erase({at.key, turn});
    }
    return model.HasTurn(at.key, turn) && model.IsCommitted(at.key, turn);
  });
}

Content FakeSessions::ContentAt(const Fence& at) {
  if (HasCopyAt(at)) {
    ++copies_used_;
    return copies_[at.key].content;
  }
  copies_.erase(at.key);
  return database_.WithModel([&](const ModelStore& model) { return model.ContentOf(at.key); });
}

std::optional<absl::Status> FakeSessions::StoppedBy(const RunningTurn& running) {
  const absl::MutexLock lock(&mutex_);
  if (commits_ == nullptr) return absl::UnavailableError("closed");
  return running->stopped;
}

void FakeSessions::Admit(const RunningTurn& running) {
  if (const auto why = StoppedBy(running)) return End(running, *why, std::nullopt);
  const Fence& fence = running->use->fence();
  bool is_lost = false;
  {
    const absl::MutexLock lock(&mutex_);
    is_lost = lost_.contains({running->session, running->turn});
  }
  if (running->use->resumes()) {
    running->version = fence.version;
    return Compute(running);
  }
  if (is_lost) return Started(running, absl::AlreadyExistsError("the log has the turn"));
  store::StartTurn start{fence, {}};
  start.turn.id = running->turn;
  Submit(start, [self = shared_from_this(), running](const absl::StatusOr<store::Applied>& made) {
    self->Started(running, made.status());
  });
}

void FakeSessions::Started(const RunningTurn& running, const absl::Status& outcome) {
  running->use->Started(outcome);
  const bool exists = absl::IsAlreadyExists(outcome);
  if (!outcome.ok() && !exists) {
    return End(running, absl::UnavailableError(outcome.message()), std::nullopt);
  }
  running->version = running->use->fence().version + (exists ? 0 : 1);
  Compute(running);
}

void FakeSessions::Compute(const RunningTurn& running) {
  After(kStep, [self = shared_from_this(), running] {
    TurnEnd end = TurnEnd::kCommits;
    if (self->StoppedBy(running).has_value()) end = TurnEnd::kFails;
    if (self->faulty_ && self->dice_.Chance(0.03)) end = TurnEnd::kFails;
    if (self->faulty_ && self->dice_.Chance(0.02)) end = TurnEnd::kAbandons;
    if (self->faulty_ && self->dice_.Chance(0.02)) {  // as when the process ends
      return self->End(running, absl::InternalError("the engine is gone"), std::nullopt);
    }
    running->use->Ran(end, [self, running, end](const absl::Status& go_on) {
      const Copy head{running->use->fence().epoch, running->version, running->content};
      if (!go_on.ok()) return self->End(running, go_on, head);
      if (end != TurnEnd::kFails) return self->Finish(running, end);
      self->End(running, self->StoppedBy(running).value_or(absl::InternalError("failed")), head);
    });
  });
}

void FakeSessions::Finish(const RunningTurn& running, TurnEnd end) {
  const Fence fence{running->session, running->use->fence().epoch, running->version};
  const auto number = static_cast<store::TurnNumber>(running->turn.low);
  const Content after = fleet::After(running->content, running->turn);
  store::Change change = store::AbandonTurn{fence, number, "", absl::Now()};
  if (end == TurnEnd::kCommits) {
    change = store::CommitTurn{fence, number, 0, absl::StrCat(after), absl::Now()};
  }
  Submit(std::move(change), [self = shared_from_this(), running, fence, end,
                             after](const absl::StatusOr<store::Applied>& made) {
    running->use->Committed(made.status());
    const bool commits = end == TurnEnd::kCommits;
    if (!made.ok()) {
      const absl::Status why = absl::UnavailableError(made.status().message());
      self->End(running, why, Copy{fence.epoch, fence.version, running->content});
    } else {
      self->End(running, commits ? absl::OkStatus() : absl::CancelledError("by the client"),
                Copy{fence.epoch, fence.version + 1, commits ? after : running->content});
    }
  });
}

void FakeSessions::End(const RunningTurn& running, const absl::Status& status,
                       std::optional<Copy> copy) {
  std::vector<Done> readers;
  {
    const absl::MutexLock lock(&mutex_);
    const auto here = running_.find(running->session);
    if (here != running_.end() && here->second == running) running_.erase(here);
    if (copy.has_value() && !running->dropped) copies_[running->session] = *copy;
    if (!status.ok() && running->version != 0) lost_.insert({running->session, running->turn});
    readers = std::move(running->readers);
    running->readers.clear();
  }
  running->use.reset();
  for (const Done& done : readers) done(status);
}

// ---------------------------------------------------------------- changes

void FakeSessions::Change(const SessionKey& session, CallId change, Done done) {
  gate_->EnterChange(
      session, [self = shared_from_this(), session, change, done](absl::StatusOr<Entry> entry) {
        if (!entry.ok()) return done(entry.status());
        const std::shared_ptr<SessionUse> use = std::move(entry->use);
        Content content = 0;
        {
          const absl::MutexLock lock(&self->mutex_);
          content = self->ContentAt(use->fence());
        }
        if (self->faulty_ && self->dice_.Chance(0.1))
          return done(absl::InvalidArgumentError("refused"));
        store::MoveHead move{use->fence(), store::kNoTurn, std::nullopt, absl::StrCat(change)};
        self->Submit(std::move(move), [self, use, content, change,
                                       done](const absl::StatusOr<store::Applied>& made) {
          use->Changed(made.status());
          if (made.ok()) {
            const Fence& at = use->fence();
            self->Take({at.key, at.epoch, at.version + 1}, AfterChange(content, change));
          }
          done(made.status());
        });
      });
}

void FakeSessions::CloseSession(const SessionKey& session, Done done) {
  gate_->EnterClose(session, [self = shared_from_this(), done](absl::StatusOr<Entry> entry) {
    if (!entry.ok()) return done(entry.status());
    if (entry->how == Entry::How::kClosed) return done(absl::OkStatus());
    const std::shared_ptr<SessionUse> use = std::move(entry->use);
    store::CloseSession close{use->fence().key, use->fence(), absl::Now()};
    self->Submit(std::move(close), [use, done](const absl::StatusOr<store::Applied>& made) {
      use->Changed(made.status());
      done(made.status());
    });
  });
}

// ---------------------------------------------------------------- copies

void FakeSessions::Opened(const SessionKey& session) {
  {
    const absl::MutexLock lock(&mutex_);
    copies_[session] = {1, 1, 0};
  }
  gate_->Opened(session, 1, 1);
}

void FakeSessions::EvictOne() {
  SessionKey evicted;
  {
    const absl::MutexLock lock(&mutex_);
    if (copies_.empty() || running_.contains(copies_.begin()->first)) return;
    evicted = copies_.begin()->first;
    copies_.erase(copies_.begin());
  }
  gate_->Evicted(evicted);
}

void FakeSessions::Drop(const SessionKey& session) {
  const absl::MutexLock lock(&mutex_);
  copies_.erase(session);
  const auto running = running_.find(session);
  if (running == running_.end()) return;
  running->second->stopped = absl::AbortedError("dropped");
  running->second->dropped = true;
  running_.erase(running);
}

void FakeSessions::Stop(const SessionKey& session, const absl::Status& why) {
  const absl::MutexLock lock(&mutex_);
  const auto running = running_.find(session);
  if (running != running_.end()) running->second->stopped = why;
}

void FakeSessions::Keep(const Fence& from, const Fence& to) {
  const absl::MutexLock lock(&mutex_);
  if (!HasCopyAt(from)) return;
  Copy& copy = copies_[from.key];
  copy.epoch = to.epoch;
  copy.version = to.version;
}

absl::Status FakeSessions::FindCaches(const Fence& at) const {
  const absl::MutexLock lock(&mutex_);
  return HasCopyAt(at) ? absl::OkStatus() : absl::NotFoundError("there is no copy");
}

bool FakeSessions::HasCopyAt(const Fence& at) const {
  const auto copy = copies_.find(at.key);
  return copy != copies_.end() && copy->second.epoch == at.epoch &&
         copy->second.version == at.version;
}

void FakeSessions::ReadCaches(const Fence& at, std::function<void(Reading)> ready) {
  Reading reader = absl::NotFoundError("there is no copy");
  {
    // One lock, because a late Take of a change may put an older copy here at any time.
    const absl::MutexLock lock(&mutex_);
    if (HasCopyAt(at)) reader = std::make_shared<FakeReader>(copies_[at.key].content);
  }
  After(kStep, [reader, ready = std::move(ready)] { ready(reader); });
}

void FakeSessions::TakeCaches(
    const SessionKey& /*session*/, const std::string& header, const Fence& at,
    std::function<void(absl::StatusOr<std::shared_ptr<CacheWriter>>)> ready) {
  Content content = 0;
  (void)absl::SimpleAtoi(header, &content);
  ready(std::make_shared<FakeWriter>(shared_from_this(), at, content));
}

void FakeSessions::Take(const Fence& at, Content content) {
  const absl::MutexLock lock(&mutex_);
  copies_[at.key] = {at.epoch, at.version, content};
}

}  // namespace longstream::fleet
