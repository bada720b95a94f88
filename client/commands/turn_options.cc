// Fills requests from the command line.
#include "client/commands/turn_options.h"

#include <cstdint>
#include <iostream>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/commands/input.h"

namespace longstream::client {
namespace {

// REQUIRES: name is "low", "normal" or "high", which CLI11 has checked.
v1::Priority PriorityOf(const std::string& name) {
  if (name == "low") return v1::PRIORITY_LOW;
  return name == "high" ? v1::PRIORITY_HIGH : v1::PRIORITY_NORMAL;
}

constexpr auto kMaxId = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
// The server's limits.
constexpr double kMostTemperature = 1000;
constexpr double kMostPenalty = 2;  // of presence and of frequency
constexpr uint64_t kMax32Bits = std::numeric_limits<uint32_t>::max();

// Parses ID=BIAS, such as "17=-2.5". Returns nothing if the text does not have this form.
std::optional<std::pair<int32_t, float>> ParseBias(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return std::nullopt;
  int32_t id = 0;
  float bias = 0;
  if (!WholeNumber(0, kMaxId)(text.substr(0, equals)).empty() ||
      !CLI::detail::lexical_cast(text.substr(0, equals), id) ||
      !CLI::detail::lexical_cast(text.substr(equals + 1), bias)) {
    return std::nullopt;
  }
  return std::pair(id, bias);
}

std::string CheckBias(const std::string& text) {
  return ParseBias(text) ? ""
                         : text + " is not ID=BIAS, such as 17=-2.5, with an ID from 0 to " +
                               std::to_string(kMaxId);
}

// The server says if it is too long.
std::string CheckTtl(const std::string& text) {
  absl::Duration ttl;
  const bool ok = absl::ParseDuration(text, &ttl) && ttl > absl::ZeroDuration() &&
                  ttl < absl::InfiniteDuration();
  return ok ? "" : "expected a time above 0, such as 720h or 30m, found '" + text + "'";
}

void TellRouting(const v1::Session& session) {
  if (session.has_routing()) std::cerr << "route: " << session.routing().text() << "\n";
}

}  // namespace

void TurnOptions::AddTo(CLI::App* app) {
  app->add_option("-m,--model", model_, "model name; empty: the server's only model");
  app->add_option("-s,--session", session_,
                  "session to continue, which stays open; default: a new session");
  app->add_flag("--keep", keep_, "leave a new session open and print its id");
  app->add_option(
         "--ttl", ttl_,
         "a new session in the server's store ends when no turn has been committed for this "
         "long, such as 720h; default: the server's")
      ->check(CheckTtl)
      ->excludes("--session");
  app->add_option("--twin", twin_,
                  "a second model that reads the same tokens and is compared with the first one");
  AddExpectationTo(app);
  AddSamplingTo(app);
  AddFormatTo(app);
}

void TurnOptions::AddExpectationTo(CLI::App* app) {
  constexpr double kMostSeconds = 24 * 3600;
  const std::string group = "For an alias with a route";
  app->add_option("--max-ttft", max_time_to_first_token_,
                  "seconds until the first token that a new session's model may take")
      ->check(Number(0, kMostSeconds))
      ->group(group);
  app->add_option("--max-time-per-token", max_time_per_token_, "seconds for each further token")
      ->check(Number(0, kMostSeconds))
      ->group(group);
  app->add_option("--max-session-bytes", max_session_bytes_, "bytes of the session's caches")
      ->check(WholeNumber())
      ->group(group);
  app->add_option("--expect-tokens", expected_tokens_,
                  "tokens of the session's prompts; default: of the first prompt")
      ->check(WholeNumber(0, uint64_t{1} << 31))
      ->group(group);
}

void TurnOptions::AddFormatTo(CLI::App* app) {
  // At most one of them, checked by the group.
  CLI::App* const group = app->add_option_group("Form of the answer");
  group->require_option(0, 1);
  has_format_options_ = true;
  group->add_flag("--answer-json", answer_json_, "the answer is a JSON object");
  group->add_option("--answer-schema", answer_schema_,
                    "the answer is JSON as the JSON Schema in this file says");
  group->add_option("--answer-regex", answer_regex_,
                    "the answer matches this regular expression as a whole");
  group->add_option("--answer-grammar", answer_grammar_,
                    "the answer has the form of the grammar (GBNF) in this file");
  group
      ->add_option("--answer-choice", answer_choices_,
                   "the answer is this text, or that of another --answer-choice")
      ->allow_extra_args(false);
}

std::optional<v1::ResponseFormat> TurnOptions::Format() const {
  if (!has_format_options_) return std::nullopt;
  v1::ResponseFormat format;
  if (answer_json_) format.mutable_json_object();
  if (Given("--answer-schema")) format.set_json_schema(ReadFile(answer_schema_, "--answer-schema"));
  if (Given("--answer-regex")) format.set_regex(answer_regex_);
  if (Given("--answer-grammar")) format.set_grammar(ReadFile(answer_grammar_, "--answer-grammar"));
  for (const std::string& text : answer_choices_) {
    format.mutable_any_of()->add_formats()->set_text(text);
  }
  if (format.format_case() == v1::ResponseFormat::FORMAT_NOT_SET) return std::nullopt;
  return format;
}

void TurnOptions::AddSamplingTo(CLI::App* app) {
  app_ = app;
  app->add_option("-t,--temperature", temperature_,
                  "sampling temperature; 0: the most probable token; default: the model's")
      ->check(Number(0, kMostTemperature));
  app->add_option("--top-k", top_k_,
                  "sample from the K most probable tokens; 0: off; default: the model's")
      ->check(WholeNumber(0, kMaxId));
  app->add_option(
         "--top-p", top_p_,
         "sample from the most probable tokens whose probabilities sum to P, in (0, 1]; 1: off; "
         "default: the model's")
      ->check(Number(0, 1));
  app->add_option("--min-p", min_p_,
                  "drop tokens with less than P times the highest probability, in [0, 1]; 0: off; "
                  "default: the model's")
      ->check(Number(0, 1));
  app->add_option("--repetition-penalty", repetition_penalty_, "> 0; 1: off; default: the model's")
      ->check(Number(0, std::numeric_limits<float>::max()));
  app->add_option("--presence-penalty", presence_penalty_, "in [-2, 2]; 0: off")
      ->check(Number(-kMostPenalty, kMostPenalty));
  app->add_option("--frequency-penalty", frequency_penalty_, "in [-2, 2]; 0: off")
      ->check(Number(-kMostPenalty, kMostPenalty));
  app->add_option("--penalty-scope", penalty_scope_,
                  "which generated tokens the presence and frequency penalties count: those of "
                  "this turn, or of all turns of the session")
      ->check(CLI::IsMember({"turn", "session"}))
      ->capture_default_str();
  app->add_option("--logit-bias", logit_bias_,
                  "ID=BIAS, in [-100, 100], -100 bans the token; may be repeated")
      ->check(CLI::Validator(CheckBias, "ID=BIAS"))
      ->allow_extra_args(false);
  app->add_option("--seed", seed_, "seed of sampling; absent: the server draws one")
      ->check(WholeNumber());
  app->add_option("--stop", stop_, "stop string; may be repeated")->allow_extra_args(false);
  app->add_option("--stop-id", stop_ids_, "token id that stops; may be repeated")
      ->check(WholeNumber(0, kMaxId))
      ->allow_extra_args(false);
  app->add_option("--min-tokens", min_tokens_, "do not stop before this many tokens")
      ->check(WholeNumber(0, kMax32Bits));
  app->add_option(
         "-n,--max-tokens", max_tokens_,
         "maximum number of tokens to generate; 0: until a stop rule or the end of the context")
      ->check(WholeNumber(0, kMax32Bits))
      ->capture_default_str();
  app->add_flag("--drop-stop-text", drop_stop_text_,
                "the session does not keep the text of a stop string");
  app->add_flag("--ignore-eos", ignore_eos_, "do not stop at the model's end ids");
  app->add_option("--priority", priority_, "turns of higher priority go first when many wait")
      ->check(CLI::IsMember({"low", "normal", "high"}))
      ->capture_default_str();
}

void TurnOptions::FillSampling(v1::Sampling* sampling) const {
  if (Given("--temperature")) sampling->set_temperature(static_cast<float>(temperature_));
  if (Given("--top-k")) sampling->set_top_k(top_k_);
  if (Given("--top-p")) sampling->set_top_p(static_cast<float>(top_p_));
  if (Given("--min-p")) sampling->set_min_p(static_cast<float>(min_p_));
  if (Given("--repetition-penalty")) {
    sampling->set_repetition_penalty(static_cast<float>(repetition_penalty_));
  }
  if (Given("--presence-penalty")) {
    sampling->set_presence_penalty(static_cast<float>(presence_penalty_));
  }
  if (Given("--frequency-penalty")) {
    sampling->set_frequency_penalty(static_cast<float>(frequency_penalty_));
  }
  sampling->set_penalty_scope(penalty_scope_ == "session" ? v1::PENALTY_SCOPE_SESSION
                                                          : v1::PENALTY_SCOPE_TURN);
  for (const std::string& text : logit_bias_) {
    if (const auto bias = ParseBias(text)) {
      (*sampling->mutable_logit_bias())[bias->first] = bias->second;
    }
  }
  if (Given("--seed")) sampling->set_seed(seed_);
}

void TurnOptions::FillStop(v1::StopRule* stop) const {
  for (const std::string& text : stop_) stop->add_strings(text);
  for (const int32_t id : stop_ids_) stop->add_token_ids(id);
  stop->set_min_tokens(min_tokens_);
  stop->set_ignore_eos(ignore_eos_);
  if (drop_stop_text_) stop->set_stop_text(v1::STOP_TEXT_DROP);
}

void TurnOptions::Fill(v1::GenerateRequest* request) const {
  FillSampling(request->mutable_sampling());
  FillStop(request->mutable_stop());
  request->set_max_tokens(max_tokens_);
  request->set_priority(PriorityOf(priority_));
  request->set_twin_model(twin_);
  if (auto format = Format(); format.has_value()) {
    *request->mutable_response_format() = *std::move(format);
  }
}

Connection TurnOptions::Connect(const Global& global) const {
  if (!session_.empty()) return ConnectToSession(global, session_, twin_);
  std::vector<std::string> models = {model_};
  if (!twin_.empty()) models.push_back(twin_);
  return ConnectToAll(global, models);
}

v1::OpenSessionRequest TurnOptions::OpenRequest(const v1::Input& input) const {
  v1::OpenSessionRequest request;
  request.set_model(model_);
  absl::Duration ttl;
  if (absl::ParseDuration(ttl_, &ttl)) {
    SetSeconds(absl::ToDoubleSeconds(ttl), request.mutable_ttl());
  }
  v1::Expectation* const expect = request.mutable_expect();
  const auto tokens = static_cast<uint64_t>(input.tokens().ids_size());
  expect->set_prompt_tokens(expected_tokens_ > 0 ? expected_tokens_ : tokens);
  expect->set_prompt_bytes(input.text().size());
  expect->set_max_tokens(max_tokens_);
  if (max_time_to_first_token_ > 0) {
    SetSeconds(max_time_to_first_token_, expect->mutable_max_time_to_first_token());
  }
  if (max_time_per_token_ > 0) {
    SetSeconds(max_time_per_token_, expect->mutable_max_time_per_token());
  }
  expect->set_max_session_bytes(max_session_bytes_);
  return request;
}

Session TurnOptions::Open(const Connection& connection, const v1::Input& input) const {
  if (continues_session()) {
    Session session = AttachSession(connection, session_);
    if (const std::string& model = session.opened().model(); !model_.empty() && model != model_) {
      throw CLI::ValidationError("--model",
                                 "session " + session_ + " is on " + model + ", not on " + model_);
    }
    return session;
  }
  Session session = OpenSession(connection, OpenRequest(input));
  if (keep_) {
    session.Keep();
    std::cerr << "session " << session.id() << "\n";
  }
  TellRouting(session.opened());
  return session;
}

}  // namespace longstream::client
