// Handles sampling parameters, token counts for penalties, text and stop rules of one turn.
#include "service/engine/turn/generator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

float BackendBias(float bias) {
  return bias <= kBanBias ? -std::numeric_limits<float>::infinity() : bias;
}

StopMatcher Stops(const TurnRequest& request) {
  absl::StatusOr<StopMatcher> stops = StopMatcher::Create(request.stop.strings);
  return stops.ok() ? *std::move(stops) : StopMatcher();
}

// Whether a token of the history gives text.
bool HasText(const Tokenizer& tokenizer, const std::vector<int32_t>& history) {
  return std::any_of(history.begin(), history.end(),
                     [&](int32_t token) { return !tokenizer.IsSpecial(token); });
}

StreamDecoderOptions DecoderOptions(const TurnRequest& request, const Tokenizer& tokenizer,
                                    const std::vector<int32_t>& history, std::string incomplete) {
  StreamDecoderOptions options;
  options.decode.skip_special = true;
  options.decode.continues = HasText(tokenizer, history);
  options.start_position = history.size();
  options.min_tokens = request.stop.min_tokens;
  options.incomplete = std::move(incomplete);
  return options;
}

}  // namespace

Generator::Generator(const ServedModel& model, const TurnRequest& request,
                     const std::vector<int32_t>& history, const std::vector<bool>& generated,
                     std::string incomplete)
    : request_(request),
      tokenizer_(model.tokenizer()),
      context_limit_(model.backend().info().context_limit),
      decoder_(model.tokenizer(), Stops(request),
               DecoderOptions(request, model.tokenizer(), history, std::move(incomplete))) {
  const SamplingParams& params = request.sampling;
  sampling_.struct_size = sizeof(sampling_);
  sampling_.seed = params.seed;
  sampling_.temperature = params.temperature;
  sampling_.top_k = params.top_k;
  sampling_.top_p = params.top_p;
  sampling_.min_p = params.min_p;
  sampling_.repetition_penalty = params.repetition_penalty;
  sampling_.presence_penalty = params.presence_penalty;
  sampling_.frequency_penalty = params.frequency_penalty;

  std::map<int32_t, float> early(params.logit_bias);
  for (const auto& [token, bias] : params.logit_bias) bias_.push_back({token, BackendBias(bias)});
  for (const int32_t token : request.stop.token_ids) early[token] = kBanBias;
  for (const auto& [token, bias] : early) early_bias_.push_back({token, BackendBias(bias)});

  if (params.UsesHistory()) {
    const bool counts_session = params.penalty_scope == PenaltyScope::kSession;
    for (size_t i = 0; i < history.size(); ++i) Count(history[i], counts_session && generated[i]);
  }
  if (request.format != nullptr && !follows()) {
    guide_.emplace(request.format, tokenizer_, request.stop.token_ids,
                   /*begins_text=*/!HasText(tokenizer_, history));
    if (!AwaitsForced()) status_ = guide_->FindAllowed();
  }
}

void Generator::Count(int32_t token, bool counts_as_generated) {
  const auto [it, is_new] = count_index_.try_emplace(token, counts_.size());
  if (is_new) counts_.push_back(ls_token_count{token, 0, 0});
  ls_token_count& count = counts_[it->second];
  ++count.total;
  count.generated += counts_as_generated ? 1 : 0;
}

const ls_sampling* Generator::Sampling(uint64_t ahead) {
  const bool is_early = drawn_ + ahead < request_.stop.min_tokens;
  const std::vector<ls_logit_bias>& bias = is_early ? early_bias_ : bias_;
  sampling_.bias = bias.data();
  sampling_.num_bias = static_cast<uint32_t>(bias.size());
  sampling_.history = counts_.data();
  sampling_.num_history = static_cast<uint32_t>(counts_.size());
  sampling_.allowed = guide_.has_value() && !AwaitsForced() ? guide_->allowed() : nullptr;
  return &sampling_;
}

bool Generator::IsStopToken(int32_t token) const {
  const std::vector<int32_t>& ids = request_.stop.token_ids;
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

FinishReason Generator::Exhausted(uint64_t drawn, uint64_t position) const {
  if (request_.max_tokens != 0 && drawn >= request_.max_tokens) return FinishReason::kMaxTokens;
  return position >= context_limit_ ? FinishReason::kContext : FinishReason::kNone;
}

absl::Status Generator::Guide(int32_t token, bool was_forced, FinishReason* reason) {
  if (!guide_->Take(token)) {
    if (guide_->overflowed()) return TooManyReadings();
    if (!was_forced) {
      return absl::InternalError(
          absl::StrCat("the backend drew token ", token, ", which the response_format forbids"));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "resume.token_ids[", drawn_ - 1, "]: the response_format forbids token ", token, " there"));
  }
  if (*reason != FinishReason::kNone || AwaitsForced()) return absl::OkStatus();
  absl::Status status = guide_->FindAllowed();
  if (guide_->IsOver()) *reason = FinishReason::kFormat;
  return status;
}

Generator::Step Generator::Take(int32_t token, uint64_t position) {
  const bool was_forced = AwaitsForced();
  ++drawn_;
  if (request_.sampling.UsesHistory()) Count(token, /*counts_as_generated=*/true);
  Step step;
  step.delta.tokens = {token};
  step.delta.position = position;
  const bool is_stop_token = IsStopToken(token);
  step.reason = is_stop_token ? FinishReason::kStopToken : Exhausted(drawn_, position);
  if (guide_.has_value()) step.status = Guide(token, was_forced, &step.reason);
  if (!step.status.ok()) return step;

  // A stop token has no text.
  std::optional<size_t> stop;
  if (!is_stop_token) {
    TextDelta text = decoder_.Push(token);
    step.delta.text = std::move(text.text);
    stop = text.stop;
  }
  // After the last token, send the text that was held back. If the text can go on in a later turn,
  // that turn may complete an incomplete character.
  if (step.reason != FinishReason::kNone && !stop.has_value()) {
    const bool can_go_on = !is_stop_token && position < context_limit_;
    TextDelta text = can_go_on ? decoder_.Pause() : decoder_.Finish();
    step.delta.text += text.text;
    stop = text.stop;
  }
  text_bytes_ += step.delta.text.size();
  if (stop.has_value()) {
    step.reason = FinishReason::kStopString;
    step.stop_string = request_.stop.strings[*stop];
  }
  if (step.reason != FinishReason::kNone) {
    step.kept_text_bytes = decoder_.undelivered_bytes();
    if (is_stop_token && !tokenizer_.IsSpecial(token)) {
      step.kept_text_bytes += tokenizer_.TokenBytes(token).size();
    }
    step.incomplete_character = decoder_.incomplete();
  }
  return step;
}

}  // namespace longstream
