// The life of one turn, step by step.
#include "service/engine/turn/active_turn.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/engine/logits/step_rows.h"
#include "service/engine/turn/batch_entry.h"
#include "service/tokenizer/text_decoder.h"

namespace longstream {
namespace {

TurnDemand DemandOf(const TurnRequest& request, const TurnHistory& history) {
  TurnDemand demand;
  demand.generates = request.kind == TurnKind::kGenerate;
  demand.keeps_caches = !request.has_own_session();
  demand.start_tokens = history.start();
  demand.prompt_tokens = request.prompt.size();
  demand.max_tokens = request.max_tokens;
  demand.context_limit = history.session().context_limit();
  return demand;
}

}  // namespace

ActiveTurn::ActiveTurn(std::shared_ptr<Turn> turn, TurnLease lease,
                       std::unique_ptr<QueueRoom::Slot> slot, ServedModel* model,
                       ModelMetrics* metrics, const FailureListener& on_failure)
    : turn_(std::move(turn)),
      slot_(std::move(slot)),
      model_(model),
      on_failure_(on_failure),
      history_(std::move(lease), &model->backend(), turn_->request.kept_tokens),
      tenant_(history_.session().tenant_index()),
      demand_(DemandOf(turn_->request, history_)),
      meter_(metrics, turn_->arm.get(), turn_->arrival, turn_->request.followed != nullptr),
      input_open_(turn_->request.kind == TurnKind::kAppend) {}

// ---------------------------------------------------------------- admission

PoolBytes ActiveTurn::BytesWanted() const { return demand_.Wanted(info(), history_.cached()); }

uint64_t ActiveTurn::BytesEvictable() const {
  return history_.sequence().valid() ? history_.sequence().bytes_alone() : 0;
}

uint64_t ActiveTurn::BytesHeld() const {
  if (ended() || reserved_end_ == 0) return 0;
  uint64_t bytes = TurnDemand::Held(info(), reserved_end_);
  // The session has its earlier caches beside the memory of the snapshot.
  if (restore_.has_value() && history_.sequence().valid()) {
    bytes += TurnDemand::CacheBytes(info(), history_.sequence().position());
  }
  return bytes;
}

absl::Status ActiveTurn::NoRoom() const {
  std::string asked =
      absl::StrCat("the turn asks for room up to position ", demand_.RequestedEnd());
  if (generates()) {
    absl::StrAppend(&asked, ", max_tokens ", request().max_tokens,
                    request().max_tokens == 0 ? " (the whole context)" : "");
  }
  return absl::ResourceExhaustedError(asked);
}

absl::Status ActiveTurn::Reserve(uint64_t tokens) {
  absl::Status status = history_.sequence().Reserve(tokens);
  if (status.ok()) reserved_end_ = history_.sequence().position() + tokens;
  return status;
}

absl::Status ActiveTurn::ReserveForRequest() {
  // Reserve at least one token, because a rollback point needs a reservation.
  absl::Status status =
      Reserve(std::max(demand_.RequestedEnd() - history_.sequence().position(), uint64_t{1}));
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "; ", NoRoom().message()));
}

absl::Status ActiveTurn::TakeMemory(const RestoreCosts& costs) {
  const uint64_t position = history_.cached().value_or(0);
  if (gave_up_stored_) {
    stored_.reset();
  } else if (stored_for_ != position) {
    stored_ = history_.ChooseStored(costs);
    stored_for_ = position;
  }
  // Without memory for the snapshot, the turn can still go on from the caches that it has.
  if (stored_.has_value() && BeginRestore(*stored_).ok()) return absl::OkStatus();
  return TakeOwnMemory();
}

absl::Status ActiveTurn::TakeOwnMemory() {
  bool made_caches = false;
  if (absl::Status status = history_.EnsureCaches(&made_caches); !status.ok()) return status;
  absl::Status status = ReserveForRequest();
  // The rollback point of a replay is its end (AbsorbReplay).
  if (status.ok() && !history_.NeedsReplay()) status = history_.sequence().MarkRollbackPoint();
  if (!status.ok() && made_caches) history_.DropCaches();
  return status;
}

absl::Status ActiveTurn::Admit(MonotonicTime now, const RestoreCosts& costs) {
  if (phase_ == Phase::kRoom) {
    absl::Status status = TakeMemory(costs);
    if (status.ok()) Go();
    return status;
  }
  history_.Cut();
  if (demand_.FillsContext()) {
    EndAtContext();
    return absl::OkStatus();
  }
  if (absl::Status status = TakeMemory(costs); !status.ok()) {
    history_.PutBack();
    return status;
  }
  meter_.Admit();
  AddPrompt(request().prompt);
  if (generates()) {
    generator_.emplace(*model_, request(), history_.tokens(), history_.generated(),
                       ContinuesText() ? history_.tail().bytes : "");
  }
  client_seen_ = now;
  Go();
  PushStarted();
  if (generator_.has_value() && !generator_->status().ok()) Abort(generator_->status());
  // A scored text of one token has nothing to read, because no token comes before it that could
  // predict it.
  if (request().kind == TurnKind::kScore && prefill_total_ == 1) {
    AbsorbScore(ls_result{}, 0);
    FinishPrefill();
  }
  return absl::OkStatus();
}

void ActiveTurn::Go() {
  if (restore_.has_value()) {
    phase_ = Phase::kRestore;
    history_.NoteFeed();
    return;
  }
  // Caches that were read from the store may have been evicted while the turn waited for memory.
  BeginReading(history_.sequence().position() == restored_ ? restored_ : 0);
}

void ActiveTurn::BeginReading(uint64_t restored) {
  meter_.TakeCaches(history_.TakeFound(restored), history_.recomputed_tokens(),
                    history_.recompute_reason());
  prefill_total_ = history_.unread();
  phase_ = history_.NeedsReplay() ? Phase::kReplay : Phase::kPrefill;
  history_.PlanReplay();
}

bool ActiveTurn::ContinuesText() const {
  return request().prompt.empty() && !request().kept_tokens.has_value() &&
         !history_.tail().has_ended;
}

void ActiveTurn::PushStarted() {
  const StartedEvent started{history_.start(), meter_.usage().prompt_tokens,
                             request().sampling.seed, request().in_thoughts};
  if (turn_->journal != nullptr) turn_->journal->Start(started);
  if (request().logits != nullptr) request().logits->Began();
  turn_->stream.Push(started);
  const std::string& incomplete = history_.tail().bytes;
  if (!generates() || incomplete.empty() || (generator_.has_value() && ContinuesText())) return;
  // If the turn has messages, they contain the earlier text, with U+FFFD.
  if (request().kept_tokens.has_value()) return;
  DeltaEvent delta;
  delta.position = history_.start();
  TextDecoder(model_->tokenizer(), {.continues = true}, incomplete).Finish(&delta.text);
  turn_->stream.Push(std::move(delta));
}

void ActiveTurn::AddPrompt(std::span<const int32_t> tokens) {
  history_.Append(tokens, /*generated=*/false);
  meter_.AddPrompt(tokens.size());
  turn_->allowance.Count(tokens.size());
}

// ---------------------------------------------------------------- caches from the store

bool ActiveTurn::FitsWithoutOwnCaches(uint64_t position) const {
  const ls_memory memory = model_->backend().memory();
  const uint64_t free = memory.budget - std::min(memory.budget, memory.reserved);
  return TurnDemand::CacheBytes(info(), position) <= free + BytesEvictable();
}

absl::Status ActiveTurn::BeginRestore(const StoredPlace& place) {
  absl::StatusOr<SnapshotImport> import = model_->backend().BeginImport(place.position);
  if (absl::IsResourceExhausted(import.status()) && history_.sequence().valid() &&
      FitsWithoutOwnCaches(place.position)) {
    history_.DropCaches();  // they have read less than the snapshot
    import = model_->backend().BeginImport(place.position);
  }
  if (!import.ok()) return import.status();
  restore_.emplace(Import{place, *std::move(import)});
  reserved_end_ = std::max(demand_.RequestedEnd(), place.position + 1);
  // The tenant's quota may have no room for the session's own caches beside the snapshot.
  if (!cache_charge().TryGrow(BytesHeld())) {
    history_.DropCaches();
    cache_charge().Set(std::max(cache_charge().bytes(), BytesHeld()));
  }
  return absl::OkStatus();
}

uint64_t ActiveTurn::BytesPromised() const {
  if (restore_from() == nullptr) return 0;
  return TurnDemand::Held(info(), reserved_end_) -
         TurnDemand::CacheBytes(info(), restore_->place.position);
}

void ActiveTurn::FinishRestore(SnapshotImport import, const StoredCaches::Filled& filled,
                               MonotonicTime now) {
  if (restore_from() == nullptr) return;
  const StoredPlace place = std::move(restore_->place);
  restore_.reset();
  absl::Status status = filled.status;
  if (status.ok()) {
    status = history_.Attach(place, filled.span_ends, std::move(import), now);
    if (!status.ok()) history_.RejectStored(place);
  }
  if (status.ok()) {
    restored_ = place.position;
  } else {
    import = SnapshotImport();  // its memory is that of the new caches
    gave_up_stored_ = true;
  }
  phase_ = Phase::kRoom;
  cache_charge().Set(std::min(cache_charge().bytes(), BytesHeld()));  // without the earlier caches
  reserved_end_ = 0;
  const std::string why(status.message());
  status = TakeOwnMemory();
  if (gave_up_stored_) {
    history_.GiveUpStored(absl::StrCat("the snapshot in the store could not be used: ", why));
  }
  if (absl::IsResourceExhausted(status)) {  // the turn awaits_room()
    if (request().logits != nullptr) request().logits->WaitsAgain();
    return;
  }
  if (!status.ok()) return Abort(std::move(status));
  Go();
}

// ---------------------------------------------------------------- a round

void ActiveTurn::TakeInput(WithRoom with_room) {
  const bool has_caches = phase_ == Phase::kPrefill || phase_ == Phase::kDecode;
  if (!input_open_ || !has_caches || ending() || parts_.in_flight()) return;
  const Turn::Input input = turn_->TakeInput();
  if (!input.tokens.empty()) {
    AddPrompt(input.tokens);
    prefill_total_ += input.tokens.size();
    const uint64_t held = PageBytes(info(), reserved_end_);
    const uint64_t needed = PageBytes(info(), history_.size());
    absl::Status status =
        with_room(needed - std::min(needed, held), [this] { return Reserve(history_.unread()); });
    if (!status.ok()) return Abort(std::move(status));
  }
  input_open_ = !input.closed;
  // The sequence has read all tokens but the last one, or there was nothing to read.
  if (!input_open_ && history_.unread() <= 1) FinishPrefill();
}

void ActiveTurn::Look() {
  candidate_.reset();
  awaits_result_ = false;
  lacks_followed_ = false;
  is_settled_ = false;
  const bool reads =
      phase_ != Phase::kWaiting && phase_ != Phase::kRestore && phase_ != Phase::kRoom;
  if (ending() || !reads || HasToPause()) return;
  if (parts_.drawing() && !GoesOn()) return;
  lacks_followed_ = LacksFollowed();
  // Asked last: if the followed turn ends in between, the engine is woken.
  if (generator_.has_value() && !parts_.drawing() && generator_->HasFollowedAll()) return End({});
  if (lacks_followed_ && parts_.drawing()) return;
  // At the end of a replay, the rollback point can be marked only if no step is in flight.
  awaits_result_ = replays() ? !history_.NeedsReplay() : parts_.drawing() && !CanLookAhead();
  if (!awaits_result_) candidate_ = FindCandidate();
  is_settled_ = candidate_.has_value() && !input_open_ && !lacks_followed_ && !parts_.in_flight();
}

bool ActiveTurn::LacksFollowed() const {
  return !replays() && generator_.has_value() && !generator_->MayDraw(parts_.drawing() ? 1 : 0);
}

bool ActiveTurn::HasToPause() {
  room_ = request().logits == nullptr ? LogitSink::Room::kFree : request().logits->GetRoom();
  return turn_->stream.Full() || room_ != LogitSink::Room::kFree;
}

bool ActiveTurn::CanLookAhead() const {
  // A token is free to take back if the model has no recurrent state, or if the token does not end
  // on a grid line. LS_CAP_LOOK_AHEAD promises that the backend takes such a token back without a
  // recomputation.
  const uint64_t end = history_.sequence().position() + 1;
  const bool is_free = info().state_bytes_per_sequence == 0 || end % info().prefill_grid != 0;
  return is_free && generator_->CanLookAhead();
}

std::optional<StepCandidate> ActiveTurn::FindCandidate() {
  StepCandidate candidate;
  candidate.position = history_.sequence().position();
  if (replays()) {
    SetReplayPart(candidate);
  } else {
    SetOwnPart(candidate);
  }
  if (candidate.remaining == 0) return std::nullopt;
  candidate.priority = static_cast<int32_t>(request().priority);
  candidate.last_step = parts_.last_step();
  candidate.passed_over = parts_.passed_over();
  if (!CanStep(candidate, info().prefill_grid)) return std::nullopt;
  return candidate;
}

void ActiveTurn::SetOwnPart(StepCandidate& candidate) const {
  const bool drawing = parts_.drawing();
  candidate.remaining = drawing ? 1 : history_.unread();
  // Only a generating turn reads the last token, because it draws the next token from its logits.
  if ((!generates() || lacks_followed_) && candidate.remaining > 0) --candidate.remaining;
  if (request().kind == TurnKind::kScore && request().logits != nullptr &&
      candidate.remaining > 0) {
    const uint32_t grid = info().prefill_grid;
    candidate.remaining =
        TokensOfStep(candidate.position, candidate.remaining, request().logits_from - 1,
                     MostLogitRows(info().vocabulary_size, grid), grid);
    candidate.gives_logits = candidate.position + candidate.remaining >= request().logits_from;
  }
  candidate.is_decode = drawing || phase_ == Phase::kDecode;
  const uint64_t drawn = meter_.usage().generated_tokens + (drawing ? 1 : 0);
  candidate.is_beginning = candidate.is_decode && drawn < kBeginningTokens;
  candidate.input_open = input_open_ || lacks_followed_;
}

void ActiveTurn::SetReplayPart(StepCandidate& candidate) const {
  const FeedRun run = history_.ReplayRun();
  candidate.is_decode = run.is_decode;
  candidate.remaining = run.is_decode ? 1 : run.end - candidate.position;
}

absl::Duration ActiveTurn::ClientSilence(MonotonicTime now) {
  if (ending() || phase_ == Phase::kWaiting) return absl::ZeroDuration();
  if (computes() || lacks_followed_ || room_ == LogitSink::Room::kOthersAreBehind) {
    client_seen_ = now;
    return absl::ZeroDuration();
  }
  // The history grows when tokens arrive, and the queue shrinks when the client reads.
  // With a sink, the client has read more when the sink's reader has taken rows.
  uint64_t progress = history_.size() - turn_->stream.queued_bytes();
  if (request().logits != nullptr) progress += request().logits->rows_taken();
  if (progress != client_progress_) {
    client_progress_ = progress;
    client_seen_ = now;
  }
  return now - client_seen_;
}

// ---------------------------------------------------------------- a step

ls_batch_entry ActiveTurn::Entry(uint32_t num_tokens) {
  const bool drawing = parts_.drawing();
  const uint64_t position = history_.sequence().position();
  // A part draws a token only if it ends with the last known token.
  const bool draws = !replays() && generates() && (drawing || num_tokens == history_.unread());
  const bool is_decode =
      replays() ? history_.ReplayRun().is_decode : drawing || phase_ == Phase::kDecode;
  const StepPart part{position, position + num_tokens, draws, is_decode};
  parts_.Compose(part);
  const uint64_t ahead = drawing ? 1 : 0;
  draw_ = {};
  if (draws) draw_.sampling = generator_->Sampling(ahead);
  if (drawing) {
    draw_.reads = generator_->follows() ? generator_->KnownToken(0) : LS_TOKEN_FROM_PREVIOUS;
  }
  if (draws && generator_->NextIsKnown()) draw_.stands = generator_->KnownToken(ahead);
  return MakeBatchEntry(history_, request(), part, draw_);
}

}  // namespace longstream
