// The starts and ends of turns: in memory, and in the store if the session is there.
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/errors/retry_after.h"
#include "service/serving/log/restore.h"
#include "service/serving/turns/session_turns.h"

namespace longstream {
namespace {

constexpr const char* kSessionHasMoved =
    "another server has the session now; send the request again with the same turn_id";

// The error for a client whose change could not be made durable. It may send the request again.
absl::Status AsUnavailable(const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) return status;
  return WithRetryAfterOf(
      absl::UnavailableError(absl::StrCat("the turn could not be committed: ", status.message())),
      status);
}

}  // namespace

// --- turns that are in the store ----------------------------------------------------------------

absl::StatusOr<SessionTurns::StoredTurn> SessionTurns::ReadTurn(const store::TurnRow& row) {
  StoredTurn turn;
  turn.view.id = row.id;
  turn.view.start_time = row.start_time;
  turn.view.end_time = row.end_time;
  turn.view.start_position = row.kept_position;
  switch (row.state) {
    case store::TurnState::kStarted:
      break;
    case store::TurnState::kCommitted:
      turn.view.state = TurnState::kCommitted;
      break;
    case store::TurnState::kAbandoned:
    case store::TurnState::kCollected:
      turn.view.state = TurnState::kAbandoned;
      break;
  }
  if (row.state == store::TurnState::kCollected) return turn;
  absl::StatusOr<LoggedStart> start = DecodeStart(row.request);
  if (!start.ok()) return start.status();
  turn.start = *std::move(start);
  if (row.state != store::TurnState::kCommitted) return turn;
  const absl::StatusOr<LoggedSummary> summary = DecodeSummary(row.result, turn.start, row.position);
  if (!summary.ok()) return summary.status();
  turn.view.position = row.position;
  turn.view.reason = summary->reason;
  turn.view.prompt_tokens = summary->prompt_tokens;
  turn.view.generated_tokens = summary->generated_tokens;
  return turn;
}

absl::StatusOr<SessionTurns::Looked> SessionTurns::Look(const TurnId& id) {
  if (const std::optional<Looked> looked = LookInMemory(id); looked.has_value()) return *looked;
  absl::Status status = ReadRecord(id);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return Looked{id, status.ok()};
}

absl::StatusOr<SessionTurns::Looked> SessionTurns::LookStarted(const TurnId& id) {
  {
    // The store may have answered to the start that it was not made, and then have made it.
    absl::MutexLock lock(&mutex_);
    const auto known = numbers_.find(id);
    if (known != numbers_.end()) {
      const Record& record = records_.at(known->second);
      const bool is_known = record.view.running || record.stored != store::kNoTurn;
      if (is_known || record.drawn || record.abandoning) return Looked{id, true};
      records_.erase(known->second);
      numbers_.erase(known);
      Count();
    }
  }
  return Look(id);
}

absl::Status SessionTurns::ReadRecord(const TurnId& id) {
  const absl::StatusOr<store::TurnRow> row = stored_.store->Turn(stored_.log->key(), id);
  if (!row.ok()) return row.status();
  absl::StatusOr<StoredTurn> turn = ReadTurn(*row);
  if (!turn.ok()) return turn.status();
  absl::MutexLock lock(&mutex_);
  if (numbers_.contains(id)) return absl::OkStatus();
  Record& record = AddRecord(row->id, turn->start.kind);
  record.admitted = true;
  record.digest = row->request_digest;
  record.seed = turn->start.sampling.seed;
  record.stored = row->number;
  record.parent = row->parent;
  record.view = turn->view;
  record.cancelled = row->state == store::TurnState::kAbandoned;
  if (row->state == store::TurnState::kStarted) record.start = std::move(turn->start);
  Count();
  return absl::OkStatus();
}

absl::StatusOr<SessionTurns::StoredPage> SessionTurns::ReadPage(store::SessionStore* store,
                                                                const SessionKey& key,
                                                                uint64_t begin, size_t limit,
                                                                uint64_t* next) {
  const auto after = static_cast<store::TurnNumber>(begin) - (begin > 0 ? 1 : 0);
  absl::StatusOr<std::vector<store::TurnNumber>> numbers =
      store->TurnNumbers(key, after, limit + 1);
  if (!numbers.ok()) return numbers.status();
  StoredPage page;
  page.is_last = numbers->size() <= limit;
  *next = page.is_last ? 0 : static_cast<uint64_t>(numbers->back());
  if (!page.is_last) numbers->pop_back();
  for (const store::TurnNumber number : *numbers) {
    const absl::StatusOr<store::TurnRow> row = store->Turn(number);
    if (absl::IsNotFound(row.status())) continue;  // it was removed meanwhile
    if (!row.ok()) return row.status();
    absl::StatusOr<StoredTurn> turn = ReadTurn(*row);
    if (!turn.ok()) return turn.status();
    page.views.push_back(turn->view);
    page.parents.push_back(row->parent);
  }
  return page;
}

absl::StatusOr<std::vector<TurnView>> SessionTurns::ListOf(store::SessionStore* store,
                                                           const store::SessionRow& session,
                                                           uint64_t begin, size_t limit,
                                                           uint64_t* next) {
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(session.properties);
  if (!properties.ok()) return properties.status();
  const uint64_t position = properties->CutOf(session.head).value_or(session.position);
  absl::StatusOr<StoredPage> page = ReadPage(store, session.key, begin, limit, next);
  if (!page.ok()) return page.status();
  for (size_t i = 0; i < page->views.size(); ++i) {
    page->views[i] = AsItIsNow(page->views[i], page->parents[i], session.head, position);
  }
  return std::move(page->views);
}

absl::StatusOr<std::vector<TurnView>> SessionTurns::ListStored(uint64_t begin, size_t limit,
                                                               uint64_t* next) const {
  absl::StatusOr<StoredPage> page = ReadPage(stored_.store, stored_.log->key(), begin, limit, next);
  if (!page.ok()) return page.status();
  std::vector<TurnView> views = std::move(page->views);
  std::set<TurnId> listed;
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < views.size(); ++i) {
    listed.insert(views[i].id);
    const auto known = numbers_.find(views[i].id);
    views[i] = known != numbers_.end()
                   ? ViewOf(records_.at(known->second))
                   : AsItIsNow(views[i], page->parents[i], head_.number, head_.position);
  }
  for (const auto& [number, record] : records_) {
    const bool is_coming = record.stored == store::kNoTurn && !listed.contains(record.view.id);
    if (page->is_last && is_coming) views.push_back(ViewOf(record));
  }
  return views;
}

absl::StatusOr<SessionTurns::Committed> SessionTurns::ReadCommitted(const TurnId& id) const {
  Committed committed;
  if (!durable()) {
    absl::MutexLock lock(&mutex_);
    const auto known = numbers_.find(id);
    if (known == numbers_.end()) return NoTurn(id);
    const Record& record = records_.at(known->second);
    committed = record.committed;
    committed.digest = record.digest;
    return committed;
  }
  absl::StatusOr<store::TurnRow> row = stored_.store->Turn(stored_.log->key(), id);
  if (!row.ok()) return row.status();
  committed.digest = row->request_digest;
  absl::StatusOr<LoggedTurn> turn = DecodeTurn(*std::move(row));
  if (!turn.ok()) return turn.status();
  // The row has no digest of an Append whose last message came after its start.
  if (committed.digest.empty()) committed.digest = std::move(turn->result.request_digest);
  committed.end = std::move(turn->result.end);
  committed.answer = std::move(turn->result.answer);
  return committed;
}

// --- the start ----------------------------------------------------------------------------------

void SessionTurns::SetWake(Progress* progress, std::function<void()> wake) {
  absl::MutexLock lock(&mutex_);
  progress->wake = std::move(wake);
}

void SessionTurns::Start(uint64_t number, const StartedEvent& started,
                         std::shared_ptr<Progress> progress, const std::shared_ptr<TurnUse>& use) {
  std::shared_ptr<Turn> turn;
  store::TurnRow row;
  // A lost turn that goes on is STARTED in the store already.
  bool is_logged = false;
  {
    absl::MutexLock lock(&mutex_);
    Record& record = records_.at(number);
    record.admitted = true;
    record.parent = head_.number;
    record.seed = started.seed;
    turn = record.turn.lock();
    is_logged = record.stored != store::kNoTurn;
    if (durable() && record.stored != store::kNoTurn && turn != nullptr &&
        record.view.start_position != started.position) {
      turn->Cancel(absl::FailedPreconditionError(
          absl::StrCat("turn_id: turn ", record.view.id.ToString(), " began at position ",
                       record.view.start_position, ", and would begin at ", started.position,
                       " now, because the session has changed")));
      return;
    }
    record.view.start_position = started.position;
    record.view.prompt_tokens = started.prompt_tokens;
    if (!durable() || turn == nullptr) return;
    if (!is_logged) ++progress->pending;
    row.id = record.view.id;
    row.kept_position = started.position;
    row.start_time = record.view.start_time;
    row.request_digest = record.digest;
    if (!is_logged) row.request = EncodeStart(turn->request, started, record.drawn, stored_.model);
  }
  if (use != nullptr) use->Admitted(is_logged);
  if (is_logged) return;
  turn->stream.Hold();
  SubmitStart(number, turn, std::move(row), std::move(progress), use);
}

void SessionTurns::SubmitStart(uint64_t number, const std::shared_ptr<Turn>& turn,
                               store::TurnRow row, std::shared_ptr<Progress> progress,
                               std::shared_ptr<TurnUse> use) {
  stored_.log->Submit(
      [row = std::move(row)](const store::Fence& fence) -> absl::StatusOr<store::Change> {
        return store::StartTurn{fence, row};
      },
      [self = shared_from_this(), number, turn, progress = std::move(progress),
       use = std::move(use)](const absl::StatusOr<store::Applied>& applied) {
        self->Started(number, turn, progress.get(), use.get(), applied);
      });
}

void SessionTurns::Started(uint64_t number, const std::shared_ptr<Turn>& turn, Progress* progress,
                           TurnUse* use, const absl::StatusOr<store::Applied>& applied) {
  if (applied.ok()) {
    {
      absl::MutexLock lock(&mutex_);
      const auto record = records_.find(number);
      if (record != records_.end()) record->second.stored = applied->turn;
    }
    turn->stream.Release();
  } else {
    turn->Cancel(AsAnswer(applied.status()));
  }
  // Before the reader learns of the end. The commit may follow from within this call.
  if (use != nullptr) use->StartAnswered(applied.status());
  absl::MutexLock lock(&mutex_);
  Answered(progress, applied.status());
}

absl::Status SessionTurns::AsAnswer(const absl::Status& status) const {
  if (stored_.gate == nullptr) return AsUnavailable(status);
  // The store finds another epoch or version, or no session.
  const bool is_fenced = absl::IsAborted(status) || absl::IsNotFound(status);
  return is_fenced ? absl::AbortedError(kSessionHasMoved) : AsUnavailable(status);
}

void SessionTurns::Answered(Progress* progress, const absl::Status& status) const {
  --progress->pending;
  if (progress->error.ok() && !status.ok()) progress->error = AsAnswer(status);
  // The engine may be destroyed as soon as it knows the outcome, for which it needs the lock that
  // the caller holds.
  if (progress->wake) progress->wake();
}

absl::StatusOr<store::TurnNumber> SessionTurns::StoredNumber(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  const auto record = records_.find(number);
  if (record != records_.end() && record->second.stored != store::kNoTurn) {
    return record->second.stored;
  }
  return absl::UnavailableError("the start of the turn could not be made durable");
}

// --- the end ------------------------------------------------------------------------------------

std::optional<absl::Status> SessionTurns::Outcome(uint64_t number, Progress* progress) {
  std::shared_ptr<Turn> late;
  {
    absl::MutexLock lock(&mutex_);
    if (progress->pending == 0) return progress->error;
    const MonotonicTime now = MonotonicTime::Now();
    if (now < progress->dismiss_at) return std::nullopt;
    progress->dismiss_at = now + stored_.commit_timeout;  // of a reader that attaches now
    late = records_.at(number).turn.lock();
  }
  if (late != nullptr) {
    late->stream.Dismiss(absl::UnavailableError(
        absl::StrCat("the store has not committed the turn within store.commit_timeout, ",
                     absl::FormatDuration(stored_.commit_timeout),
                     "; it may still do so: send the request again with the same turn_id")));
  }
  return std::nullopt;
}

void SessionTurns::End(uint64_t number, const EndedTurn& ended, std::shared_ptr<Progress> progress,
                       const std::shared_ptr<TurnUse>& use) {
  if (ended.kept && durable()) {
    TurnKind kind;
    std::string digest;
    absl::Status stopped;
    {
      absl::MutexLock lock(&mutex_);
      Record& record = records_.at(number);
      kind = record.kind;
      digest = record.digest;
      stopped = record.stopped;
      if (stopped.ok()) {
        record.view.state = TurnState::kCommitting;
        ++progress->pending;
        progress->dismiss_at = MonotonicTime::Now() + stored_.commit_timeout;
      } else if (progress->error.ok()) {
        progress->error = stopped;
      }
    }
    if (!stopped.ok()) return EndWithoutCommit(number, use);
    std::string result = EncodeResult(ended, kind, digest);
    EndedTurn committed = ended;
    committed.state = nullptr;
    if (use == nullptr) {
      return SubmitCommit(number, committed, std::move(result), std::move(progress), nullptr);
    }
    return use->Ran(fleet::TurnEnd::kCommits,
                    [self = shared_from_this(), number, committed, use, result = std::move(result),
                     progress = std::move(progress)](const absl::Status& status) {
                      if (status.ok())
                        return self->SubmitCommit(number, committed, result, progress, use);
                      self->CommitAnswered(number, committed, progress.get(), nullptr, status);
                    });
  }
  if (!ended.kept) return EndWithoutCommit(number, use);
  absl::MutexLock lock(&mutex_);
  Commit(number, records_.at(number), ended);
}

void SessionTurns::EndWithoutCommit(uint64_t number, const std::shared_ptr<TurnUse>& use) {
  if (use == nullptr) return;
  bool abandons = false;
  {
    absl::MutexLock lock(&mutex_);
    Record& record = records_.at(number);
    abandons = record.cancelled && record.admitted && record.stopped.ok();
    if (abandons) {  // and Release does not do it
      record.abandoning = true;
      record.view.state = TurnState::kAbandoned;
    }
  }
  if (!abandons) return use->Ran(fleet::TurnEnd::kFails, [](const absl::Status&) {});
  use->Ran(fleet::TurnEnd::kAbandons,
           [self = shared_from_this(), number, use](const absl::Status& status) {
             if (!status.ok()) return self->Abandoned(number);
             self->SubmitAbandon(number, [use](const absl::Status& made) { use->Committed(made); });
           });
}

void SessionTurns::Commit(uint64_t number, Record& record, const EndedTurn& ended) {
  head_.number = durable() ? record.stored : static_cast<store::TurnNumber>(number);
  head_.id = record.view.id;
  head_.position = ended.end.position;
  if (!durable()) AddToHistory(number, record, ended);
  TurnEnd& end = record.committed.end = ended.end;
  if (!end.status.ok()) end.reason = FinishReason::kAborted;
  end.status = absl::OkStatus();
  record.view.state = TurnState::kCommitted;
  record.view.position = end.position;
  record.view.reason = end.reason;
  record.view.prompt_tokens = end.usage.prompt_tokens;
  record.view.generated_tokens = end.usage.generated_tokens;
  if (ended.answer == nullptr || record.drawn || durable()) return;
  answer_bytes_ += ended.answer->bytes();
  record.committed.answer = ended.answer;
}

void SessionTurns::SubmitCommit(uint64_t number, const EndedTurn& ended, std::string result,
                                std::shared_ptr<Progress> progress, std::shared_ptr<TurnUse> use) {
  stored_.log->Submit(
      [self = shared_from_this(), number, position = ended.end.position,
       result = std::move(result)](const store::Fence& fence) -> absl::StatusOr<store::Change> {
        const absl::StatusOr<store::TurnNumber> turn = self->StoredNumber(number);
        if (!turn.ok()) return turn.status();
        const absl::Time now = absl::Now();
        return store::CommitTurn{fence, *turn, position, result, now, now + self->ttl()};
      },
      [self = shared_from_this(), number, ended, progress = std::move(progress),
       use = std::move(use)](const absl::StatusOr<store::Applied>& applied) {
        self->CommitAnswered(number, ended, progress.get(), use.get(), applied.status());
      });
}

void SessionTurns::CommitAnswered(uint64_t number, const EndedTurn& ended, Progress* progress,
                                  TurnUse* use, const absl::Status& outcome) {
  {
    absl::MutexLock lock(&mutex_);
    Record& record = records_.at(number);
    if (outcome.ok()) {
      Commit(number, record, ended);
    } else {
      record.view.state = TurnState::kStarted;
    }
  }
  // Before the reader learns of the end, after which its client may send the next turn.
  if (use != nullptr) use->Committed(outcome);
  absl::MutexLock lock(&mutex_);
  Answered(progress, outcome);
}

void SessionTurns::Abandon(uint64_t number) {
  if (stored_.gate == nullptr) return SubmitAbandon(number, [](const absl::Status&) {});
  stored_.gate->EnterChangeHere(
      stored_.log->key(), [self = shared_from_this(), number](absl::StatusOr<fleet::Entry> entry) {
        // Without a use, or if the session has changed elsewhere, the turn stays STARTED. When
        // another turn is committed, it counts as abandoned.
        const bool may_change = entry.ok() && entry->how == fleet::Entry::How::kUse &&
                                self->stored_.log->IsAt(entry->use->fence());
        if (!may_change) return self->Abandoned(number);
        self->SubmitAbandon(number, [use = std::move(entry->use)](const absl::Status& made) {
          use->Changed(made);
        });
      });
}

void SessionTurns::SubmitAbandon(uint64_t number,
                                 std::function<void(const absl::Status&)> answered) {
  stored_.log->Submit(
      [self = shared_from_this(),
       number](const store::Fence& fence) -> absl::StatusOr<store::Change> {
        const absl::StatusOr<store::TurnNumber> turn = self->StoredNumber(number);
        if (!turn.ok()) return turn.status();
        return store::AbandonTurn{fence, *turn, "", absl::Now()};
      },
      // If it fails, the turn stays STARTED in the store, and can go on after a restart.
      [self = shared_from_this(), number,
       answered = std::move(answered)](const absl::StatusOr<store::Applied>& applied) {
        self->Abandoned(number);
        answered(applied.status());
      });
}

void SessionTurns::Abandoned(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  const auto record = records_.find(number);
  if (record == records_.end()) return;
  record->second.abandoning = false;
  if (!record->second.drawn || record->second.view.running) return;
  --num_drawn_;
  numbers_.erase(record->second.view.id);
  records_.erase(record);
  Count();
}

}  // namespace longstream
