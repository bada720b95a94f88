// Checks the limits of each field, in the order of the wire contract.
#include "service/server/request_check.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/stream/stop_matcher.h"

namespace longstream {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;
constexpr float kLargest = std::numeric_limits<float>::max();

// A repetition penalty outside this range acts as the nearer end. It draws the same tokens, because
// a penalised logit then differs from any other by far more than any noise. And no logit that a
// model computes leaves the range of f32 when it is divided or multiplied by the penalty.
constexpr float kLeastRepetitionPenalty = 1e-6f;
constexpr float kMostRepetitionPenalty = 1e6f;

// The shortest text that stands for `value` alone. With a fixed number of digits, the first value
// above a limit would look like the limit.
std::string Text(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(std::begin(text), std::end(text), value);
  return std::string(text, end.ptr);
}

// Returns an error unless low <= value <= high. NaN is an error too.
absl::Status CheckRange(const std::string& field, float value, float low, float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(field, ": expected ", low, " ... ", high, ", found ", Text(value));
}

absl::Status CheckAboveZero(const char* field, float value, float high = kLargest) {
  if (value > 0.0f && value <= high) return absl::OkStatus();
  if (high == kLargest) {
    return Invalid(field, ": expected a finite number above 0, found ", Text(value));
  }
  return Invalid(field, ": expected a number above 0 and at most ", high, ", found ", Text(value));
}

// Below 2^53, so that programs that read numbers of JSON as doubles, such as jq, keep all bits.
uint64_t DrawSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) >> 11;
}

absl::StatusOr<PenaltyScope> ReadPenaltyScope(v1::PenaltyScope value) {
  switch (value) {
    case v1::PENALTY_SCOPE_UNSPECIFIED:
    case v1::PENALTY_SCOPE_TURN:
      return PenaltyScope::kTurn;
    case v1::PENALTY_SCOPE_SESSION:
      return PenaltyScope::kSession;
    default:
      return Invalid("sampling.penalty_scope: unknown value ", static_cast<int>(value));
  }
}

// Reads the sampling values. If a value is absent in the request, uses the default of the model.
absl::Status ReadSampling(const v1::Sampling& request, const ServedModel& model,
                          SamplingParams* params) {
  const GenerationDefaults& defaults = model.defaults();
  params->temperature =
      request.has_temperature() ? request.temperature() : defaults.temperature.value_or(0.0f);
  params->top_k = request.has_top_k() ? request.top_k() : defaults.top_k.value_or(0);
  params->top_p = request.has_top_p() ? request.top_p() : defaults.top_p.value_or(1.0f);
  params->min_p = request.has_min_p() ? request.min_p() : defaults.min_p.value_or(0.0f);
  params->repetition_penalty = request.has_repetition_penalty()
                                   ? request.repetition_penalty()
                                   : defaults.repetition_penalty.value_or(1.0f);
  params->presence_penalty = request.presence_penalty();
  params->frequency_penalty = request.frequency_penalty();
  const absl::StatusOr<PenaltyScope> scope = ReadPenaltyScope(request.penalty_scope());
  if (!scope.ok()) return scope.status();
  params->penalty_scope = *scope;
  params->seed = request.has_seed() ? request.seed() : DrawSeed();

  const absl::Status checks[] = {
      CheckRange("sampling.temperature", params->temperature, 0.0f, 1000.0f),
      CheckAboveZero("sampling.top_p", params->top_p, 1.0f),
      CheckRange("sampling.min_p", params->min_p, 0.0f, 1.0f),
      CheckAboveZero("sampling.repetition_penalty", params->repetition_penalty),
      CheckRange("sampling.presence_penalty", params->presence_penalty, -2.0f, 2.0f),
      CheckRange("sampling.frequency_penalty", params->frequency_penalty, -2.0f, 2.0f),
  };
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (params->top_k < 0) {
    return Invalid("sampling.top_k: expected 0 or more, found ", params->top_k);
  }
  params->repetition_penalty =
      std::clamp(params->repetition_penalty, kLeastRepetitionPenalty, kMostRepetitionPenalty);
  return absl::OkStatus();
}

absl::Status ReadBias(const v1::Sampling& request, uint32_t vocabulary_size,
                      SamplingParams* params) {
  for (const auto& [id, bias] : request.logit_bias()) {
    if (id < 0 || id >= static_cast<int64_t>(vocabulary_size)) {
      return Invalid("sampling.logit_bias: token id ", id, " is outside the vocabulary of ",
                     vocabulary_size);
    }
    absl::Status status =
        CheckRange(absl::StrCat("sampling.logit_bias[", id, "]"), bias, -100.0f, 100.0f);
    if (!status.ok()) return status;
    params->logit_bias.emplace(id, bias);
  }
  return absl::OkStatus();
}

absl::Status ReadStop(const v1::StopRule& rule, const ServedModel& model, StopParams* stop) {
  if (rule.strings_size() > kMaxStopStrings) {
    return Invalid("stop.strings: at most ", kMaxStopStrings, ", found ", rule.strings_size());
  }
  for (const std::string& text : rule.strings()) {
    if (text.empty() || text.size() > kMaxStopStringBytes) {
      return Invalid("stop.strings: expected 1 ... ", kMaxStopStringBytes, " bytes each, found ",
                     text.size());
    }
    stop->strings.push_back(text);
  }
  if (absl::StatusOr<StopMatcher> matcher = StopMatcher::Create(stop->strings); !matcher.ok()) {
    return Invalid("stop.strings: ", matcher.status().message());
  }
  if (rule.token_ids_size() > kMaxStopIds) {
    return Invalid("stop.token_ids: at most ", kMaxStopIds, ", found ", rule.token_ids_size());
  }
  for (int i = 0; i < rule.token_ids_size(); ++i) {
    absl::Status status = CheckTokenId("stop.token_ids", i, rule.token_ids(i),
                                       model.backend().info().vocabulary_size);
    if (!status.ok()) return status;
    stop->token_ids.push_back(rule.token_ids(i));
  }
  if (!rule.ignore_eos()) {
    const std::vector<int32_t>& ends = model.defaults().end_token_ids;
    stop->token_ids.insert(stop->token_ids.end(), ends.begin(), ends.end());
  }
  stop->min_tokens = rule.min_tokens();
  switch (rule.stop_text()) {
    case v1::STOP_TEXT_UNSPECIFIED:
    case v1::STOP_TEXT_KEEP:
      return absl::OkStatus();
    case v1::STOP_TEXT_DROP:
      stop->drops_text = true;
      return absl::OkStatus();
    default:
      return Invalid("stop.stop_text: unknown value ", static_cast<int>(rule.stop_text()));
  }
}

// `unspecified`: what ON_ABORT_UNSPECIFIED stands for.
absl::StatusOr<OnAbort> ReadOnAbort(v1::OnAbort value, OnAbort unspecified) {
  switch (value) {
    case v1::ON_ABORT_UNSPECIFIED:
      return unspecified;
    case v1::ON_ABORT_ROLLBACK:
      return OnAbort::kRollback;
    case v1::ON_ABORT_KEEP:
      return OnAbort::kKeep;
    case v1::ON_ABORT_CONTINUE:
      return OnAbort::kContinue;
    default:
      return Invalid("on_abort: unknown value ", static_cast<int>(value));
  }
}

absl::StatusOr<Priority> ReadPriority(v1::Priority value) {
  switch (value) {
    case v1::PRIORITY_LOW:
      return Priority::kLow;
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_NORMAL:
      return Priority::kNormal;
    case v1::PRIORITY_HIGH:
      return Priority::kHigh;
    default:
      return Invalid("priority: unknown value ", static_cast<int>(value));
  }
}

// INVALID_ARGUMENT: every token is banned, so none can be drawn. Before min_tokens tokens are
// generated, the stop ids are banned too.
absl::Status CheckNotAllBanned(const SamplingParams& params, const StopParams& stop,
                               uint32_t vocabulary_size) {
  std::set<int32_t> banned;
  for (const auto& [token, bias] : params.logit_bias) {
    if (bias <= kBanBias) banned.insert(token);
  }
  if (stop.min_tokens > 0) banned.insert(stop.token_ids.begin(), stop.token_ids.end());
  if (banned.size() < vocabulary_size) return absl::OkStatus();
  return Invalid("sampling.logit_bias: every one of the ", vocabulary_size, " tokens is banned",
                 stop.min_tokens > 0 ? ", the stop ids until stop.min_tokens" : "");
}

absl::Status CheckTop(uint32_t top, uint32_t vocabulary_size) {
  if (top <= std::min(kMaxTopLogProbs, vocabulary_size)) return absl::OkStatus();
  if (vocabulary_size >= kMaxTopLogProbs) {
    return Invalid("top_log_probs: expected 0 ... ", kMaxTopLogProbs, ", found ", top);
  }
  return Invalid("top_log_probs: expected 0 ... ", vocabulary_size,
                 ", the tokens of the vocabulary, found ", top);
}

}  // namespace

absl::StatusOr<size_t> CheckPageSize(int page_size) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: expected 0 ... ", kMaxPageSize, ", found ", page_size));
  }
  return page_size == 0 ? kDefaultPageSize : static_cast<size_t>(page_size);
}

absl::StatusOr<uint64_t> CheckTurnsToken(const std::string& token) {
  uint64_t number = 0;
  if (token.empty() || absl::SimpleAtoi(token, &number)) return number;
  return absl::InvalidArgumentError(
      "page_token: expected the next_page_token of an earlier response");
}

absl::StatusOr<std::optional<SessionId>> CheckSessionId(const std::string& text,
                                                        std::string_view field) {
  if (text.empty()) return std::optional<SessionId>();
  absl::StatusOr<SessionId> id = SessionId::Parse(text, field);
  if (!id.ok()) return id.status();
  return std::optional<SessionId>(*id);
}

absl::StatusOr<std::optional<absl::Duration>> CheckDuration(
    const char* field, bool present, const google::protobuf::Duration& duration) {
  if (!present) return std::optional<absl::Duration>();
  constexpr int64_t kMaxSeconds = 315'576'000'000;  // protobuf's own limit, 10 000 years
  constexpr int32_t kMaxNanos = 999'999'999;
  if (duration.seconds() < -kMaxSeconds || duration.seconds() > kMaxSeconds ||
      duration.nanos() < -kMaxNanos || duration.nanos() > kMaxNanos) {
    return Invalid(field, ": expected a duration of at most ", kMaxSeconds, " seconds and ",
                   kMaxNanos, " nanos, found ", duration.seconds(), " seconds and ",
                   duration.nanos(), " nanos");
  }
  if ((duration.seconds() < 0 && duration.nanos() > 0) ||
      (duration.seconds() > 0 && duration.nanos() < 0)) {
    return Invalid(field, ": expected seconds and nanos of the same sign, found ",
                   duration.seconds(), " seconds and ", duration.nanos(), " nanos");
  }
  return std::optional<absl::Duration>(absl::Seconds(duration.seconds()) +
                                       absl::Nanoseconds(duration.nanos()));
}

absl::StatusOr<Recompute> CheckRecompute(v1::Recompute value) {
  switch (value) {
    case v1::RECOMPUTE_UNSPECIFIED:
    case v1::RECOMPUTE_EXACT:
      return Recompute::kExact;
    case v1::RECOMPUTE_FAST:
      return Recompute::kFast;
    default:
      return Invalid("recompute: unknown value ", static_cast<int>(value));
  }
}

absl::StatusOr<Durability> CheckDurability(v1::Durability value) {
  switch (value) {
    case v1::DURABILITY_UNSPECIFIED:
      return Durability::kDefault;
    case v1::DURABILITY_TURN:
      return Durability::kTurn;
    case v1::DURABILITY_MEMORY:
      return Durability::kMemory;
    default:
      return Invalid("durability: unknown value ", static_cast<int>(value));
  }
}

absl::StatusOr<std::optional<SessionId>> CheckTurnId(const v1::GenerateRequest& request) {
  if (request.turn_id().empty() && request.has_resume()) {
    return Invalid("resume: there is no turn_id");
  }
  return CheckSessionId(request.turn_id(), "turn_id");
}

absl::Status CheckResume(const v1::Resume& resume, const TurnRequest& request,
                         uint32_t vocabulary_size) {
  const auto refuse = [](int index, const auto&... why) {
    return absl::FailedPreconditionError(absl::StrCat("resume.token_ids[", index, "]: ", why...));
  };
  const std::vector<int32_t>& stops = request.stop.token_ids;
  for (int i = 0; i < resume.token_ids_size(); ++i) {
    const int32_t id = resume.token_ids(i);
    if (id < 0 || id >= static_cast<int64_t>(vocabulary_size)) {
      return refuse(i, "token id ", id, " is outside the vocabulary of ", vocabulary_size);
    }
    if (request.max_tokens != 0 && static_cast<uint64_t>(i) >= request.max_tokens) {
      return refuse(i, "the turn has at most ", request.max_tokens, " tokens (max_tokens)");
    }
    const bool is_stop = static_cast<uint64_t>(i) >= request.stop.min_tokens &&
                         std::find(stops.begin(), stops.end(), id) != stops.end();
    if (is_stop && i + 1 < resume.token_ids_size()) {
      return refuse(i + 1, "the stop id ", id, " before it ends the turn");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokenId(const char* field, int64_t index, int64_t id, uint32_t vocabulary_size) {
  if (id >= 0 && id < static_cast<int64_t>(vocabulary_size)) return absl::OkStatus();
  return Invalid(field, "[", index, "]: token id ", id, " is outside the vocabulary of ",
                 vocabulary_size);
}

absl::StatusOr<TurnRequest> CheckGenerate(const v1::GenerateRequest& request,
                                          const ServedModel& model) {
  TurnRequest turn;
  turn.kind = TurnKind::kGenerate;
  const bool has_id = !request.turn_id().empty();
  absl::StatusOr<OnAbort> on_abort =
      ReadOnAbort(request.on_abort(), has_id ? OnAbort::kContinue : OnAbort::kRollback);
  if (!on_abort.ok()) return on_abort.status();
  if (*on_abort == OnAbort::kContinue && !has_id) {
    return Invalid("on_abort: ON_ABORT_CONTINUE needs a turn_id, so that a client can come back");
  }
  turn.on_abort = *on_abort;
  turn.outlives_reader = has_id;
  absl::StatusOr<Priority> priority = ReadPriority(request.priority());
  if (!priority.ok()) return priority.status();
  turn.priority = *priority;

  turn.max_tokens = request.max_tokens();
  turn.log_probs = request.log_probs();
  turn.top_log_probs = request.top_log_probs();
  const uint32_t vocabulary_size = model.backend().info().vocabulary_size;
  const absl::Status checks[] = {
      ReadSampling(request.sampling(), model, &turn.sampling),
      ReadBias(request.sampling(), vocabulary_size, &turn.sampling),
      ReadStop(request.stop(), model, &turn.stop),
      CheckTop(request.top_log_probs(), vocabulary_size),
      request.top_log_probs() == 0 || request.log_probs()
          ? absl::OkStatus()
          : Invalid("top_log_probs: expected 0 without log_probs, found ", request.top_log_probs()),
  };
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  absl::Status banned = CheckNotAllBanned(turn.sampling, turn.stop, vocabulary_size);
  if (!banned.ok()) return banned;
  if (turn.max_tokens != 0 && turn.stop.min_tokens > turn.max_tokens) {
    return Invalid("stop.min_tokens: ", turn.stop.min_tokens, " is more than max_tokens, ",
                   turn.max_tokens);
  }
  return turn;
}

absl::StatusOr<TurnRequest> CheckAppend(const v1::AppendRequest& request) {
  TurnRequest turn;
  turn.kind = TurnKind::kAppend;
  absl::StatusOr<OnAbort> on_abort = ReadOnAbort(request.on_abort(), OnAbort::kRollback);
  if (!on_abort.ok()) return on_abort.status();
  if (*on_abort == OnAbort::kContinue) {
    return Invalid(
        "on_abort: an Append cannot go on without its client; expected "
        "ON_ABORT_ROLLBACK or ON_ABORT_KEEP");
  }
  if (*on_abort == OnAbort::kKeep && !request.turn_id().empty()) {
    return Invalid(
        "on_abort: an Append with a turn_id is taken in whole or not at all; expected "
        "ON_ABORT_ROLLBACK");
  }
  turn.on_abort = *on_abort;
  return turn;
}

absl::Status CheckContinuation(const v1::AppendRequest& message, const v1::AppendRequest& first) {
  const auto differs = [](const char* field) {
    return Invalid(
        absl::StrCat(field, ": differs from the first message; only the first message may set it"));
  };
  if (!message.session_id().empty() && message.session_id() != first.session_id()) {
    return differs("session_id");
  }
  if (message.has_expected_position() &&
      (!first.has_expected_position() ||
       message.expected_position() != first.expected_position())) {
    return differs("expected_position");
  }
  if (message.on_abort() != v1::ON_ABORT_UNSPECIFIED && message.on_abort() != first.on_abort()) {
    return differs("on_abort");
  }
  if (message.parse_special() && !first.parse_special()) return differs("parse_special");
  if (!message.turn_id().empty() && message.turn_id() != first.turn_id()) return differs("turn_id");
  const bool goes_on = first.input().has_messages() && message.has_input();
  if (goes_on || message.input().has_messages()) {
    return Invalid("input: messages must be in the first message, and no input may follow them");
  }
  return absl::OkStatus();
}

absl::StatusOr<TurnRequest> CheckScore(const v1::ScoreRequest& request, const ServedModel& model) {
  TurnRequest turn;
  turn.kind = TurnKind::kScore;
  absl::Status top = CheckTop(request.top_log_probs(), model.backend().info().vocabulary_size);
  if (!top.ok()) return top;
  turn.top_log_probs = request.top_log_probs();
  return turn;
}

}  // namespace longstream
