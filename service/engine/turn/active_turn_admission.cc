// How a turn begins: its request in the light of the session, its memory, its prompt.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/turn/active_turn.h"

namespace longstream {

std::span<const int32_t> ActiveTurn::PrefixOf(bool is_text) const {
  if (!is_text || !session_->tokens.empty()) return {};
  return model_->tokenizer().sequence_prefix();
}

std::span<const int32_t> ActiveTurn::Following(
    const std::vector<int32_t>& history, const std::vector<int32_t>& tokens,
    const std::optional<std::vector<int32_t>>& continued) const {
  const bool continues = continued.has_value() && !history.empty() &&
                         model_->tokenizer().ContinuesAfter(history.back());
  return continues ? *continued : tokens;
}

absl::Status ActiveTurn::CheckRoom(uint64_t added) const {
  const uint64_t position =
      phase_ == Phase::kWaiting ? start_tokens_ : uint64_t{session_->tokens.size()};
  if (position + added <= session_->context_limit()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input: ", added, " tokens after position ",
                                                 position, " exceed the model's context of ",
                                                 session_->context_limit()));
}

absl::Status ActiveTurn::Prepare() {
  const TurnRequest& request = turn_->request;
  if (session_->closed()) return absl::CancelledError("the session was closed");
  prompt_ = Following(session_->tokens, request.prompt, request.continued_prompt);
  if (!prompt_.empty()) prefix_ = PrefixOf(request.prompt_is_text);
  if (request.kind == TurnKind::kGenerate && start_tokens_ == 0 && prompt_.empty()) {
    return absl::InvalidArgumentError(
        "input: the session is empty, so the turn needs a text or token ids");
  }
  return CheckRoom(prefix_.size() + prompt_.size());
}

bool ActiveTurn::FillsContext() const {
  return turn_->request.kind == TurnKind::kGenerate &&
         start_tokens_ + prefix_.size() + prompt_.size() >= session_->context_limit();
}

uint64_t ActiveTurn::RequestedEnd() const {
  const TurnRequest& request = turn_->request;
  const uint64_t given = start_tokens_ + prefix_.size() + prompt_.size();
  if (request.kind != TurnKind::kGenerate) return given;
  const uint64_t room = session_->context_limit() - std::min(given, session_->context_limit());
  return given + (request.max_tokens == 0 ? room : std::min(request.max_tokens, room));
}

PoolBytes ActiveTurn::BytesWanted() const {
  PoolBytes wanted;
  if (FillsContext()) return wanted;
  const ls_model_info& info = model_->backend().info();
  const bool has_caches = session_->sequence.valid();
  const uint64_t held = has_caches ? PageBytes(info, session_->sequence.position()) : 0;
  const uint64_t needed = PageBytes(info, RequestedEnd());
  wanted.pages = needed - std::min(needed, held);
  wanted.fixed = info.checkpoint_bytes_per_sequence;
  if (!has_caches) wanted.fixed += info.window_bytes_per_sequence + info.state_bytes_per_sequence;
  return wanted;
}

uint64_t ActiveTurn::BytesBack(uint64_t pages) const {
  const ls_model_info& info = model_->backend().info();
  const uint64_t bytes = pages + info.checkpoint_bytes_per_sequence;
  // A scored text's caches go with the turn.
  if (turn_->request.session != nullptr) return bytes;
  return bytes + info.window_bytes_per_sequence + info.state_bytes_per_sequence;
}

uint64_t ActiveTurn::BytesUnused() const {
  if (ended() || reserved_end_ == 0) return 0;
  const ls_model_info& info = model_->backend().info();
  const bool is_kept = turn_->request.session != nullptr;
  const uint64_t used = is_kept ? PageBytes(info, session_->sequence.position()) : 0;
  return BytesBack(PageBytes(info, reserved_end_) - used);
}

uint64_t ActiveTurn::MostBytesBack() const {
  if (ended() || reserved_end_ == 0) return 0;
  const ls_model_info& info = model_->backend().info();
  return BytesBack(PageBytes(info, reserved_end_) - PageBytes(info, usage_.reused_tokens));
}

absl::Status ActiveTurn::NoRoom() const {
  const TurnRequest& request = turn_->request;
  std::string asked = absl::StrCat("the turn asks for room up to position ", RequestedEnd());
  if (request.kind == TurnKind::kGenerate) {
    absl::StrAppend(&asked, ", max_tokens ", request.max_tokens,
                    request.max_tokens == 0 ? " being the whole context" : "");
  }
  return absl::ResourceExhaustedError(asked);
}

absl::Status ActiveTurn::Reserve(uint64_t tokens) {
  absl::Status status = session_->sequence.Reserve(tokens);
  if (status.ok()) reserved_end_ = session_->sequence.position() + tokens;
  return status;
}

absl::Status ActiveTurn::ReserveForRequest() {
  // At least one token, so that there is a reservation for the checkpoint to stand on.
  absl::Status status =
      Reserve(std::max(RequestedEnd() - session_->sequence.position(), uint64_t{1}));
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "; ", NoRoom().message()));
}

absl::Status ActiveTurn::TakeMemory() {
  // A scored text has no caches yet, nor has a session whose caches were lost (RollBack).
  const bool had_caches = session_->sequence.valid();
  if (!had_caches) {
    absl::StatusOr<Sequence> sequence = model_->backend().CreateSequence();
    if (!sequence.ok()) return sequence.status();
    session_->sequence = *std::move(sequence);
  }
  absl::Status status = ReserveForRequest();
  if (status.ok()) status = session_->sequence.MarkRollbackPoint();
  if (!status.ok() && !had_caches) session_->sequence = Sequence();
  return status;
}

absl::Status ActiveTurn::Admit(MonotonicTime now) {
  const TurnRequest& request = turn_->request;
  if (FillsContext()) {
    CutHistory();
    AddPromptToHistory();
    EndAtContext();
    return absl::OkStatus();
  }
  CutHistory();
  if (absl::Status status = TakeMemory(); !status.ok()) {
    PutBackHistory();
    return status;
  }
  usage_.queue_time = now - turn_->arrival;
  usage_.reused_tokens = session_->sequence.position();
  usage_.recomputed_tokens =
      session_->computed_tokens - std::min(session_->computed_tokens, usage_.reused_tokens);
  if (usage_.recomputed_tokens > 0) usage_.recompute_reason = session_->recompute_reason;
  AddPromptToHistory();
  if (request.kind == TurnKind::kGenerate) {
    generator_.emplace(*model_, request, session_->tokens, session_->generated);
  }
  prefill_total_ = unread();
  admitted_ = prefilled_ = now;
  client_seen_ = now;
  phase_ = Phase::kPrefill;
  turn_->stream.Push(StartedEvent{start_tokens_, usage_.prompt_tokens, request.sampling.seed});
  metrics_->ObserveQueue(absl::ToDoubleSeconds(usage_.queue_time));
  metrics_->AddReusedTokens(usage_.reused_tokens);
  metrics_->AddRecomputedTokens(usage_.recomputed_tokens);
  // One token has nothing before it that could predict it.
  if (request.kind == TurnKind::kScore && prefill_total_ == 1) {
    AbsorbScore(ls_result{});
    FinishPrefill();
  }
  return absl::OkStatus();
}

void ActiveTurn::CutHistory() {
  if (start_tokens_ == session_->tokens.size()) return;
  const auto at = static_cast<std::ptrdiff_t>(start_tokens_);
  cut_tokens_.assign(session_->tokens.begin() + at, session_->tokens.end());
  cut_generated_.assign(session_->generated.begin() + at, session_->generated.end());
  cut_computed_tokens_ = session_->computed_tokens;
  if (!session_->sequence.valid()) {
    session_->tokens.resize(start_tokens_);
    session_->generated.resize(start_tokens_);
    return;
  }
  RollBack(start_tokens_,
           absl::StrCat("the turn replaced the text from position ", start_tokens_, " on"));
}

void ActiveTurn::PutBackHistory() {
  if (cut_tokens_.empty()) return;
  session_->tokens.insert(session_->tokens.end(), cut_tokens_.begin(), cut_tokens_.end());
  session_->generated.insert(session_->generated.end(), cut_generated_.begin(),
                             cut_generated_.end());
  session_->computed_tokens = cut_computed_tokens_;
  cut_tokens_.clear();
}

void ActiveTurn::EndAtContext() {
  turn_->stream.Push(
      StartedEvent{start_tokens_, usage_.prompt_tokens, turn_->request.sampling.seed});
  TurnEnd end;
  end.reason = FinishReason::kContext;
  End(std::move(end));
}

void ActiveTurn::AddPromptToHistory() {
  AddToHistory(prefix_);
  AddToHistory(prompt_);
}

void ActiveTurn::AddToHistory(std::span<const int32_t> tokens) {
  session_->tokens.insert(session_->tokens.end(), tokens.begin(), tokens.end());
  session_->generated.resize(session_->tokens.size(), false);
  usage_.prompt_tokens += tokens.size();
  metrics_->AddPromptTokens(tokens.size());
}

void ActiveTurn::TakeInput() {
  if (!input_open_ || ending() || in_flight()) return;
  const Turn::Input input = turn_->TakeInput();
  if (!input.pieces.empty()) {
    const std::span<const int32_t> prefix = PrefixOf(input.pieces.front().is_text);
    std::vector<int32_t> tokens;
    for (const Turn::InputPiece& piece : input.pieces) {
      const std::vector<int32_t>& history = tokens.empty() ? session_->tokens : tokens;
      const std::span<const int32_t> more = Following(history, piece.tokens, piece.continued);
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    const uint64_t added = prefix.size() + tokens.size();
    if (absl::Status status = CheckRoom(added); !status.ok()) return Abort(status);
    AddToHistory(prefix);
    AddToHistory(tokens);
    prefill_total_ += added;
    absl::Status status = Reserve(unread());
    if (!status.ok()) return Abort(status);
  }
  input_open_ = !input.closed;
  // All but the last token is read already, or there was nothing to read.
  if (!input_open_ && unread() <= 1) FinishPrefill();
}

}  // namespace longstream
