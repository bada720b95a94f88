// Copies the members of plain structs to protobuf messages and back.
#include "service/serving/log/turn_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "turn_log.pb.h"

namespace longstream {
namespace {

absl::Status Damaged(const char* what) {
  return absl::DataLossError(absl::StrCat("store: the bytes of a ", what, " are not as written"));
}

// --- the request ------------------------------------------------------------------------------

void Set(const SamplingParams& from, log::Sampling* to) {
  to->set_temperature(from.temperature);
  to->set_top_k(from.top_k);
  to->set_top_p(from.top_p);
  to->set_min_p(from.min_p);
  to->set_repetition_penalty(from.repetition_penalty);
  to->set_presence_penalty(from.presence_penalty);
  to->set_frequency_penalty(from.frequency_penalty);
  to->set_penalty_scope(static_cast<uint32_t>(from.penalty_scope));
  for (const auto& [token, bias] : from.logit_bias) (*to->mutable_logit_bias())[token] = bias;
  to->set_seed(from.seed);
}

SamplingParams From(const log::Sampling& from) {
  SamplingParams to;
  to.temperature = from.temperature();
  to.top_k = from.top_k();
  to.top_p = from.top_p();
  to.min_p = from.min_p();
  to.repetition_penalty = from.repetition_penalty();
  to.presence_penalty = from.presence_penalty();
  to.frequency_penalty = from.frequency_penalty();
  to.penalty_scope = static_cast<PenaltyScope>(from.penalty_scope());
  to.logit_bias.insert(from.logit_bias().begin(), from.logit_bias().end());
  to.seed = from.seed();
  return to;
}

void Set(const std::tm& from, log::Conversation* to) {
  for (const int part : {from.tm_sec, from.tm_min, from.tm_hour, from.tm_mday, from.tm_mon,
                         from.tm_year, from.tm_wday, from.tm_yday, from.tm_isdst}) {
    to->add_time(part);
  }
}

std::tm TimeFrom(const log::Conversation& from) {
  std::tm time{};
  int* const parts[] = {&time.tm_sec,  &time.tm_min,  &time.tm_hour, &time.tm_mday, &time.tm_mon,
                        &time.tm_year, &time.tm_wday, &time.tm_yday, &time.tm_isdst};
  for (int i = 0; i < from.time_size() && i < 9; ++i) *parts[i] = from.time(i);
  return time;
}

// --- the result -------------------------------------------------------------------------------

void Set(const Answer& answer, log::TurnResult* to) {
  if (answer.lead().has_value()) to->set_lead(answer.lead()->text);
  std::string text;
  for (size_t i = 0; i < answer.tokens().size(); ++i) {
    const DeltaEvent delta = answer.DeltaOf(i);
    text += delta.text;
    to->add_text_lengths(static_cast<uint32_t>(delta.text.size()));
    for (const TokenLogProb& from : delta.log_probs) {
      log::TokenLogProb* log_prob = to->add_log_probs();
      log_prob->set_log_prob(from.log_prob);
      for (const ls_top_token& top : from.top) {
        log_prob->add_top_tokens(top.token);
        log_prob->add_top_log_probs(top.log_prob);
      }
    }
  }
  to->set_text(std::move(text));
}

void Set(const TurnUsage& from, log::TurnResult* to) {
  to->set_reused_tokens(from.reused_tokens);
  to->set_recomputed_tokens(from.recomputed_tokens);
  to->set_recompute_reason(from.recompute_reason);
  to->set_queue_us(absl::ToInt64Microseconds(from.queue_time));
  to->set_prefill_us(absl::ToInt64Microseconds(from.prefill_time));
  to->set_decode_us(absl::ToInt64Microseconds(from.decode_time));
  to->set_first_token_us(absl::ToInt64Microseconds(from.time_to_first_token));
  to->set_kv_bytes(from.bytes.kv);
  to->set_window_bytes(from.bytes.window);
  to->set_state_bytes(from.bytes.state);
  to->set_host_bytes(from.bytes.host);
  to->set_forced_tokens(from.forced_tokens);
  to->set_restored_tokens(from.restored_tokens);
  to->set_restored_from_peer(from.restore_source == RestoreSource::kPeer);
}

TurnUsage UsageFrom(const log::TurnResult& from) {
  TurnUsage to;
  to.reused_tokens = from.reused_tokens();
  to.recomputed_tokens = from.recomputed_tokens();
  to.recompute_reason = from.recompute_reason();
  to.queue_time = absl::Microseconds(from.queue_us());
  to.prefill_time = absl::Microseconds(from.prefill_us());
  to.decode_time = absl::Microseconds(from.decode_us());
  to.time_to_first_token = absl::Microseconds(from.first_token_us());
  to.bytes = {from.kv_bytes(), from.window_bytes(), from.state_bytes(), from.host_bytes()};
  to.forced_tokens = from.forced_tokens();
  to.restored_tokens = from.restored_tokens();
  if (to.restored_tokens > 0) {
    to.restore_source = from.restored_from_peer() ? RestoreSource::kPeer : RestoreSource::kStore;
  }
  return to;
}

// REQUIRES: there is one text_length per generated token.
std::shared_ptr<const Answer> AnswerFrom(const log::TurnResult& from, uint64_t start) {
  auto answer = std::make_shared<Answer>();
  const uint64_t prompt_end = start + from.prompt_tokens();
  answer->Start({start, from.prompt_tokens(), from.seed(), from.in_thoughts()});
  if (!from.lead().empty()) {
    DeltaEvent lead;
    lead.text = from.lead();
    lead.position = start;
    answer->Add(lead);
  }
  const bool is_apart = from.answer_tokens_size() > 0;
  const auto& tokens = is_apart ? from.answer_tokens() : from.tokens();
  const auto first = is_apart ? 0 : static_cast<int>(from.prompt_tokens());
  size_t text_begin = 0;
  for (int i = 0; i < from.text_lengths_size(); ++i) {
    DeltaEvent delta;
    delta.tokens = {tokens.Get(first + i)};
    delta.position = prompt_end + static_cast<uint64_t>(i) + 1;
    delta.text = from.text().substr(text_begin, from.text_lengths(i));
    text_begin += from.text_lengths(i);
    if (i < from.log_probs_size()) {
      const log::TokenLogProb& log_prob = from.log_probs(i);
      TokenLogProb to{delta.tokens[0], log_prob.log_prob(), {}};
      for (int k = 0; k < log_prob.top_tokens_size() && k < log_prob.top_log_probs_size(); ++k) {
        to.top.push_back({log_prob.top_tokens(k), log_prob.top_log_probs(k)});
      }
      delta.log_probs.push_back(std::move(to));
    }
    answer->Add(delta);
  }
  return answer;
}

// How many tokens the answer has. REQUIRES: the prompt is not longer than the tokens.
uint64_t AnswerSize(const log::TurnResult& result) {
  if (result.answer_tokens_size() > 0) return static_cast<uint64_t>(result.answer_tokens_size());
  return static_cast<uint64_t>(result.tokens_size()) - result.prompt_tokens();
}

bool IsWhole(const log::TurnResult& result, TurnKind kind) {
  if (result.prompt_tokens() > static_cast<uint64_t>(result.tokens_size())) return false;
  uint64_t text = 0;
  for (const uint32_t length : result.text_lengths()) text += length;
  const auto lengths = static_cast<uint64_t>(result.text_lengths_size());
  // Each token of the answer has log-probabilities, or none has.
  const int log_probs = result.log_probs_size();
  if (log_probs != 0 && log_probs != result.text_lengths_size()) return false;
  return text <= result.text().size() &&
         lengths == (kind == TurnKind::kGenerate ? AnswerSize(result) : 0);
}

absl::Status Parse(const std::string& bytes, const LoggedStart& start, uint64_t position,
                   log::TurnResult* result) {
  if (!result->ParseFromString(bytes) || !IsWhole(*result, start.kind) ||
      start.start_position + static_cast<uint64_t>(result->tokens_size()) != position) {
    return Damaged("committed turn");
  }
  return absl::OkStatus();
}

void Set(const ModelIdentity& from, log::ModelIdentity* to) {
  to->set_fingerprint(from.fingerprint);
  to->set_tokenizer(from.tokenizer);
  to->set_kernels(from.kernels);
}

ModelIdentity From(const log::ModelIdentity& from) {
  return {from.fingerprint(), from.tokenizer(), from.kernels()};
}

// The tokens of the answer, which a session that drops the text of a stop does not keep.
void SetAnswerTokens(const std::vector<int32_t>& drawn, log::TurnResult* result) {
  const auto kept = result->tokens().begin() + static_cast<int>(result->prompt_tokens());
  if (std::equal(drawn.begin(), drawn.end(), kept, result->tokens().end())) return;
  result->mutable_answer_tokens()->Add(drawn.begin(), drawn.end());
}

}  // namespace

ModelIdentity ModelIdentity::Of(const ServedModel& model) {
  return {model.backend().info().fingerprint, model.tokenizer().fingerprint(),
          model.backend().info().kernels};
}

std::string EncodeStart(const TurnRequest& request, const StartedEvent& started, bool drawn_id,
                        const ModelIdentity& model) {
  log::TurnStart start;
  start.set_kind(static_cast<uint32_t>(request.kind));
  start.set_start_position(started.position);
  start.mutable_prompt()->Add(request.prompt.begin(), request.prompt.end());
  if (request.logged_messages != nullptr && request.conversation != nullptr) {
    log::Conversation* conversation = start.mutable_conversation();
    conversation->set_messages(request.logged_messages->messages);
    conversation->set_parse_special(request.logged_messages->parse_special);
    conversation->set_generates(request.kind == TurnKind::kGenerate);
    Set(request.conversation->now, conversation);
  }
  Set(request.sampling, start.mutable_sampling());
  for (const std::string& text : request.stop.strings) start.mutable_stop()->add_strings(text);
  start.mutable_stop()->mutable_token_ids()->Add(request.stop.token_ids.begin(),
                                                 request.stop.token_ids.end());
  start.mutable_stop()->set_min_tokens(request.stop.min_tokens);
  start.mutable_stop()->set_drops_text(request.stop.drops_text);
  start.set_max_tokens(request.max_tokens);
  start.set_log_probs(request.log_probs);
  start.set_top_log_probs(request.top_log_probs);
  start.set_on_abort(static_cast<uint32_t>(request.on_abort));
  start.set_drawn_id(drawn_id);
  Set(model, start.mutable_model());
  return start.SerializeAsString();
}

absl::StatusOr<LoggedStart> DecodeStart(const std::string& bytes) {
  log::TurnStart start;
  if (!start.ParseFromString(bytes)) return Damaged("started turn");
  LoggedStart to;
  to.kind = static_cast<TurnKind>(start.kind());
  to.start_position = start.start_position();
  to.sampling = From(start.sampling());
  to.stop.strings.assign(start.stop().strings().begin(), start.stop().strings().end());
  to.stop.token_ids.assign(start.stop().token_ids().begin(), start.stop().token_ids().end());
  to.stop.min_tokens = start.stop().min_tokens();
  to.stop.drops_text = start.stop().drops_text();
  to.drawn_id = start.drawn_id();
  to.model = From(start.model());
  if (start.has_conversation()) {
    to.messages.emplace();
    to.messages->messages = start.conversation().messages();
    to.messages->parse_special = start.conversation().parse_special();
    to.messages->generates = start.conversation().generates();
    to.messages->now = TimeFrom(start.conversation());
  }
  return to;
}

std::string EncodeResult(const EndedTurn& ended, TurnKind kind, const std::string& digest) {
  log::TurnResult result;
  if (kind == TurnKind::kAppend) result.set_request_digest(digest);
  const std::vector<int32_t>& tokens = ended.state->tokens;
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(ended.start_position);
  result.mutable_tokens()->Add(begin, tokens.end());
  result.set_prompt_tokens(ended.end.usage.prompt_tokens);
  result.set_feed_begin(ended.feed_begin);
  for (const FeedRun& run : ended.state->feed.runs()) {
    if (run.end > ended.feed_begin) result.add_feed(2 * run.end + (run.is_decode ? 1 : 0));
  }
  if (kind == TurnKind::kGenerate && ended.answer != nullptr) {
    Set(*ended.answer, &result);
    SetAnswerTokens(ended.answer->tokens(), &result);
  }
  const TurnEnd& end = ended.end;
  result.set_reason(static_cast<uint32_t>(end.status.ok() ? end.reason : FinishReason::kAborted));
  result.set_stop_string(end.stop_string);
  result.set_stop_token(end.stop_token);
  result.set_kept_text_bytes(end.kept_text_bytes);
  result.set_incomplete_character(end.incomplete_character);
  result.set_tail(ended.tail.bytes);
  result.set_tail_has_ended(ended.tail.has_ended);
  result.set_lowest_rewind(ended.lowest_rewind);
  Set(end.usage, &result);
  if (ended.answer != nullptr && ended.answer->started().has_value()) {
    result.set_seed(ended.answer->started()->seed);
    result.set_in_thoughts(ended.answer->started()->in_thoughts);
  }
  return result.SerializeAsString();
}

absl::StatusOr<LoggedSummary> DecodeSummary(const std::string& bytes, const LoggedStart& start,
                                            uint64_t position) {
  log::TurnResult result;
  if (absl::Status status = Parse(bytes, start, position, &result); !status.ok()) return status;
  return LoggedSummary{static_cast<FinishReason>(result.reason()), result.prompt_tokens(),
                       AnswerSize(result)};
}

absl::StatusOr<LoggedResult> DecodeResult(const std::string& bytes, const LoggedStart& start,
                                          uint64_t position) {
  log::TurnResult result;
  if (absl::Status status = Parse(bytes, start, position, &result); !status.ok()) return status;
  LoggedResult to;
  to.tokens.assign(result.tokens().begin(), result.tokens().end());
  to.prompt_tokens = result.prompt_tokens();
  to.feed_begin = result.feed_begin();
  uint64_t last = to.feed_begin;
  for (const uint64_t run : result.feed()) {
    if (run / 2 <= last || run / 2 > position) return Damaged("committed turn");
    last = run / 2;
    to.feed.push_back({last, (run & 1) != 0});
  }
  to.tail = {result.tail(), result.tail_has_ended()};
  to.lowest_rewind = result.lowest_rewind();
  to.end.reason = static_cast<FinishReason>(result.reason());
  to.end.position = position;
  to.end.stop_string = result.stop_string();
  to.end.stop_token = result.stop_token();
  to.end.kept_text_bytes = result.kept_text_bytes();
  to.end.incomplete_character = result.incomplete_character();
  to.end.usage = UsageFrom(result);
  to.end.usage.prompt_tokens = to.prompt_tokens;
  to.end.usage.generated_tokens = AnswerSize(result);
  if (start.kind == TurnKind::kGenerate) to.answer = AnswerFrom(result, start.start_position);
  to.request_digest = result.request_digest();
  return to;
}

std::string EncodeProperties(const LoggedProperties& properties) {
  log::SessionProperties to;
  to.set_idle_timeout_us(absl::ToInt64Microseconds(properties.idle_timeout));
  if (properties.ttl.has_value()) to.set_ttl_us(absl::ToInt64Microseconds(*properties.ttl));
  to.set_recompute(static_cast<uint32_t>(properties.recompute));
  to.set_origin(properties.origin);
  to.set_alias(properties.alias);
  for (const LoggedProperties::Cut& cut : properties.cuts) {
    log::Cut* logged = to.add_cuts();
    logged->set_turn(cut.turn);
    logged->set_position(cut.position);
  }
  if (properties.model.has_value()) Set(*properties.model, to.mutable_model());
  to.set_model_head(properties.model_head);
  to.set_has_moved(properties.has_moved);
  return to.SerializeAsString();
}

absl::StatusOr<LoggedProperties> DecodeProperties(const std::string& bytes) {
  log::SessionProperties from;
  if (!from.ParseFromString(bytes)) return Damaged("session");
  LoggedProperties to;
  to.idle_timeout = absl::Microseconds(from.idle_timeout_us());
  if (from.ttl_us() != 0) to.ttl = absl::Microseconds(from.ttl_us());
  to.recompute = static_cast<Recompute>(from.recompute());
  to.origin = from.origin();
  to.alias = from.alias();
  for (const log::Cut& cut : from.cuts()) to.cuts.push_back({cut.turn(), cut.position()});
  if (from.has_model()) to.model = From(from.model());
  to.model_head = from.model_head();
  to.has_moved = from.has_moved();
  return to;
}

std::optional<uint64_t> LoggedProperties::CutOf(store::TurnNumber turn) const {
  for (const Cut& cut : cuts) {
    if (cut.turn == turn) return cut.position;
  }
  return std::nullopt;
}

}  // namespace longstream
