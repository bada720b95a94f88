// Keeps a record for each turn, and decides what a repeated request means.
#include "service/serving/turns/session_turns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

std::string Text(const TurnId& id) { return absl::StrCat("turn_id: turn ", id.ToString()); }

}  // namespace

SessionTurns::SessionTurns(const std::shared_ptr<Session>& session, Stored stored)
    : session_id_(session->id()),
      session_(session),
      stored_(std::move(stored)),
      charge_(session->host_memory()) {
  absl::MutexLock lock(&mutex_);
  Count();
}

SessionTurns::Record& SessionTurns::AddRecord(const TurnId& id, TurnKind kind) {
  const uint64_t number = next_number_++;
  numbers_[id] = number;
  Record& record = records_[number];
  record.view.id = id;
  record.kind = kind;
  record.parent = head_.number;
  return record;
}

std::shared_ptr<TurnEntry> SessionTurns::AddRunning(const TurnId& id, TurnKind kind, bool drawn) {
  Record& record = AddRecord(id, kind);
  record.view.running = true;
  record.view.start_time = absl::Now();
  record.drawn = drawn;
  if (drawn) ++num_drawn_;
  Count();
  return std::make_shared<TurnEntry>(shared_from_this(), numbers_.at(id), id);
}

std::optional<SessionTurns::Looked> SessionTurns::LookInMemory(const TurnId& id) const {
  absl::MutexLock lock(&mutex_);
  const bool known = numbers_.contains(id);
  if (!known && durable()) return std::nullopt;
  return Looked{id, known};
}

absl::StatusOr<SessionTurns::Found> SessionTurns::Begin(const Looked& looked, TurnKind kind,
                                                        const std::string& digest) {
  absl::MutexLock lock(&mutex_);
  const auto known = numbers_.find(looked.id);
  if (known != numbers_.end()) return Resume(records_.at(known->second), kind, digest);
  // The turn has ended since it was looked up. The server had drawn its id, because records of ids
  // that clients chose stay. If the turn was admitted, the store has it.
  if (durable() && looked.known) {
    return absl::AbortedError(
        absl::StrCat(Text(looked.id), " has just ended; send the request again"));
  }
  Found found;
  found.entry = AddRunning(looked.id, kind, /*drawn=*/false);
  records_.at(numbers_.at(looked.id)).digest = digest;
  return found;
}

std::shared_ptr<TurnEntry> SessionTurns::BeginDrawn(TurnKind kind, const TurnId& id) {
  absl::MutexLock lock(&mutex_);
  return AddRunning(id, kind, /*drawn=*/true);
}

bool SessionTurns::IsRunning(const TurnId& id) const {
  absl::MutexLock lock(&mutex_);
  const auto known = numbers_.find(id);
  return known != numbers_.end() && records_.at(known->second).view.running;
}

bool SessionTurns::IsRunningOrCommitted(const TurnId& id) const {
  absl::MutexLock lock(&mutex_);
  const auto known = numbers_.find(id);
  if (known == numbers_.end()) return false;
  const TurnView& view = records_.at(known->second).view;
  return view.running || view.state == TurnState::kCommitted;
}

absl::StatusOr<SessionTurns::Found> SessionTurns::Resume(Record& record, TurnKind kind,
                                                         const std::string& digest) {
  const TurnView view = ViewOf(record);
  const bool knows_both = !digest.empty() && !record.digest.empty();
  if (kind != record.kind || (knows_both && digest != record.digest)) {
    return absl::AlreadyExistsError(
        absl::StrCat(Text(view.id), " of this session was another request"));
  }
  if (view.state == TurnState::kAbandoned) {
    return absl::FailedPreconditionError(absl::StrCat(
        Text(view.id), " was abandoned: ",
        record.cancelled ? "it was cancelled"
                         : "another turn was committed in its place, or the session was rewound"));
  }
  Found found;
  if (view.state == TurnState::kCommitted) {
    found.committed = true;
    return found;
  }
  if (view.running) {
    if (kind == TurnKind::kGenerate) found.running = record.turn.lock();
    if (found.running != nullptr) return found;
    return absl::AbortedError(absl::StrCat(Text(view.id), " is running in another call"));
  }
  found.lost = Lost{record.seed, record.start};
  record.view.running = true;
  record.view.end_time = absl::InfiniteFuture();
  found.entry = std::make_shared<TurnEntry>(shared_from_this(), numbers_.at(view.id), view.id);
  return found;
}

void SessionTurns::Lost::GoOnAs(TurnRequest* request) const {
  if (start.has_value()) {
    request->sampling = start->sampling;
    request->stop = start->stop;
  }
  request->sampling.seed = seed;
}

std::optional<std::tm> SessionTurns::Lost::TimeOfMessages() const {
  if (!start.has_value() || !start->messages.has_value()) return std::nullopt;
  return start->messages->now;
}

absl::Status SessionTurns::SetDigest(uint64_t number, const std::string& digest) {
  absl::MutexLock lock(&mutex_);
  Record& record = records_.at(number);
  if (record.digest.empty()) record.digest = digest;
  if (record.digest == digest) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(Text(record.view.id), " of this session was another request"));
}

void SessionTurns::SetTurn(uint64_t number, const std::shared_ptr<Turn>& turn) {
  absl::MutexLock lock(&mutex_);
  Record& record = records_.at(number);
  record.turn = turn;
  if (!record.stopped.ok()) turn->Cancel(record.stopped);
  if (record.cancelled) turn->Cancel(absl::CancelledError("the turn was cancelled"));
}

void SessionTurns::Release(uint64_t number) {
  std::vector<Cancelled> waiting;
  TurnView view;
  bool abandon = false;
  {
    absl::MutexLock lock(&mutex_);
    Record& record = records_.at(number);
    abandon = durable() && record.cancelled && record.admitted && record.stopped.ok() &&
              record.view.state == TurnState::kStarted;
    if (abandon) record.abandoning = true;
    waiting = Stop(number, record, &view);
  }
  if (abandon) Abandon(number);
  for (const Cancelled& cancelled : waiting) cancelled(view);
}

std::vector<SessionTurns::Cancelled> SessionTurns::Stop(uint64_t number, Record& record,
                                                        TurnView* view) {
  record.view.running = false;
  record.view.end_time = absl::Now();
  record.turn.reset();
  record.stopped = absl::OkStatus();
  if (record.cancelled && record.view.state == TurnState::kStarted) {
    record.view.state = TurnState::kAbandoned;
  }
  *view = ViewOf(record);
  std::vector<Cancelled> waiting = std::exchange(record.waiting, {});
  if (!record.abandoning && (record.drawn || !record.admitted)) {
    if (record.drawn) --num_drawn_;
    numbers_.erase(record.view.id);
    records_.erase(number);
  }
  Count();
  return waiting;
}

void SessionTurns::StopRunning(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  for (auto& [number, record] : records_) {
    if (!record.view.running) continue;
    record.stopped = why;
    if (const std::shared_ptr<Turn> turn = record.turn.lock()) turn->Cancel(why);
  }
}

bool SessionTurns::Cancel(const TurnId& id, const Cancelled& cancelled,
                          const std::shared_ptr<fleet::SessionUse>& use) {
  TurnView view;
  uint64_t abandoned = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = numbers_.find(id);
    if (found == numbers_.end() || has_left_) return false;
    Record& record = records_.at(found->second);
    if (record.view.running) {
      record.cancelled = true;
      record.waiting.push_back(cancelled);
      const std::shared_ptr<Turn> turn = record.turn.lock();
      if (turn != nullptr) turn->Cancel(absl::CancelledError("the turn was cancelled"));
      return true;
    }
    if (ViewOf(record).state == TurnState::kStarted) {
      record.cancelled = true;
      record.view.state = TurnState::kAbandoned;
      record.abandoning = durable();
      abandoned = found->second;
    }
    view = ViewOf(record);
  }
  if (abandoned != 0 && durable()) {
    if (use == nullptr) {
      Abandon(abandoned);
    } else {
      SubmitAbandon(abandoned, [use](const absl::Status& made) { use->Changed(made); });
    }
  }
  cancelled(view);
  return true;
}

bool SessionTurns::IsSettledLocked() const {
  return std::none_of(records_.begin(), records_.end(), [](const auto& numbered) {
    return numbered.second.view.running || numbered.second.abandoning;
  });
}

bool SessionTurns::IsSettled() const {
  absl::MutexLock lock(&mutex_);
  return IsSettledLocked();
}

bool SessionTurns::Leave() {
  absl::MutexLock lock(&mutex_);
  if (!IsSettledLocked()) return false;
  has_left_ = true;
  return true;
}

absl::Status SessionTurns::NoTurn(const TurnId& id) const {
  return absl::NotFoundError(
      absl::StrCat("turn_id: no turn ", id.ToString(), " in session ", session_id_.ToString()));
}

TurnView SessionTurns::ViewOf(const Record& record) const {
  return AsItIsNow(record.view, record.parent, head_.number, head_.position);
}

TurnView SessionTurns::AsItIsNow(TurnView view, store::TurnNumber parent, store::TurnNumber head,
                                 uint64_t position) {
  const bool lost = view.state == TurnState::kStarted && !view.running;
  const bool has_moved = parent != head || view.start_position > position;
  if (lost && has_moved) view.state = TurnState::kAbandoned;
  return view;
}

absl::StatusOr<std::vector<TurnView>> SessionTurns::List(uint64_t begin, size_t limit,
                                                         uint64_t* next) const {
  if (durable()) return ListStored(begin, limit, next);
  absl::MutexLock lock(&mutex_);
  std::vector<TurnView> views;
  auto it = records_.lower_bound(begin);
  for (; it != records_.end() && views.size() < limit; ++it) views.push_back(ViewOf(it->second));
  *next = it == records_.end() ? 0 : it->first;
  return views;
}

void SessionTurns::Count() {
  const uint64_t of_record = NodeBytes<std::pair<const uint64_t, Record>>() +
                             NodeBytes<std::pair<const TurnId, uint64_t>>() +
                             BlockBytes(sizeof(TurnEntry)) + BlockBytes(32);  // the digest
  const uint64_t held =
      BlockBytes(sizeof(SessionTurns)) + records_.size() * of_record + answer_bytes_;
  charge_.Set(held);
  // The record of a turn whose client named no id ends with the turn.
  if (const auto session = session_.lock()) session->SetTurnBytes(held - num_drawn_ * of_record);
}

}  // namespace longstream
