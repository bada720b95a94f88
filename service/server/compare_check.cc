// Reads the prompt and the forced text of each arm with the arm's tokenizer.
#include "service/server/compare_check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/engine/turn/prompt_check.h"
#include "service/server/request_check.h"
#include "service/server/routing/route_messages.h"
#include "service/server/turn_input.h"
#include "service/server/turn_reactor.h"

namespace longstream {
namespace {

using Forced = v1::CompareForced;

absl::Status InArm(size_t arm, const char* field, const absl::Status& status) {
  return About(absl::StrCat("arms[", arm, "]", field), status);
}

// The tokens that the prompts of all arms begin with.
struct SessionPrompt {
  SessionState state;  // only its tokens
  std::string model;
  uint64_t tokenizer = 0;  // its fingerprint
};

// Checks the fields that do not depend on a model.
absl::Status CheckFields(const v1::CompareRequest& request) {
  if (request.arms_size() < kLeastArms || request.arms_size() > kMostArms) {
    return Invalid("arms: expected ", kLeastArms, " ... ", kMostArms, ", found ",
                   request.arms_size());
  }
  if (!request.session_id().empty() && request.input().has_messages()) {
    return Invalid(
        "input.messages: messages are a whole conversation, so they cannot follow the "
        "session in session_id; expected text or tokens");
  }
  if (!request.has_forced()) return absl::OkStatus();
  const Forced& forced = request.forced();
  const auto num_arms = static_cast<uint32_t>(request.arms_size());
  switch (forced.kind_case()) {
    case Forced::kText:
      if (forced.text().empty()) return Invalid("forced.text: expected 1 byte or more, found none");
      break;
    case Forced::kTokens:
      if (forced.tokens().ids().empty()) {
        return Invalid("forced.tokens: expected 1 token or more, found none");
      }
      break;
    case Forced::kAnswerOf:
      if (forced.answer_of() < num_arms) break;
      return Invalid("forced.answer_of: expected 0 ... ", num_arms - 1, ", the arms, found ",
                     forced.answer_of());
    case Forced::kPromptFrom:
      break;
    case Forced::KIND_NOT_SET:
      return Invalid("forced: expected text, tokens, answer_of or prompt_from");
  }
  for (uint32_t arm = 0; arm < num_arms; ++arm) {
    const bool answers = forced.kind_case() == Forced::kAnswerOf && forced.answer_of() == arm;
    if (answers || !request.arms(static_cast<int>(arm)).has_sampling()) continue;
    return Invalid("arms[", arm, "].sampling: the arm generates nothing, because of forced");
  }
  return absl::OkStatus();
}

// Copies the tokens of the session, whose turn this is.
absl::StatusOr<SessionPrompt> ReadSession(absl::StatusOr<NewTurn>& of_session) {
  if (!of_session.ok()) return of_session.status();
  const std::optional<NewTurn> turn(*std::move(of_session));
  absl::StatusOr<std::vector<int32_t>> tokens = turn->CopyTokens();
  if (!tokens.ok()) return turn->Refuse(About("session_id", tokens.status()));
  SessionPrompt prompt;
  prompt.state.tokens = *std::move(tokens);
  prompt.model = turn->model().name();
  prompt.tokenizer = turn->model().tokenizer().fingerprint();
  return prompt;
}

// Reads the inputs of one request for its arms.
class CompareInput {
 public:
  CompareInput(const v1::CompareRequest& request, RequestMemory* memory)
      : request_(request), memory_(memory), received_bytes_(request.ByteSizeLong()) {}

  // The tokens that one arm reads.
  struct Read {
    std::vector<int32_t> prompt;
    std::vector<int32_t> forced;
  };
  absl::StatusOr<Read> ReadFor(NewTurn& turn, const SessionPrompt& session) const {
    // Each arm may take as much as a request of this size.
    RequestCharge charge(memory_, received_bytes_);
    Read read;
    read.prompt = session.state.tokens;
    absl::Status room =
        CheckRoom(0, read.prompt.size(), turn.model().backend().info().context_limit);
    if (!room.ok()) return room;
    TurnInput input(turn.model(), session.state, request_.parse_special());
    absl::StatusOr<std::vector<int32_t>> prompt = ReadInput(request_.input(), turn, input, &charge);
    if (!prompt.ok()) return prompt.status();
    read.prompt.insert(read.prompt.end(), prompt->begin(), prompt->end());
    v1::Input forced;
    if (request_.forced().has_text()) forced.set_text(request_.forced().text());
    if (request_.forced().has_tokens()) *forced.mutable_tokens() = request_.forced().tokens();
    absl::StatusOr<std::vector<int32_t>> behind = ReadInput(forced, turn, input, &charge);
    if (!behind.ok()) {
      const absl::string_view why = behind.status().message();
      return WithMessage(behind.status(), absl::StrCat("forced", absl::StripPrefix(why, "input")));
    }
    read.forced = *std::move(behind);
    return read;
  }

 private:
  // Reads a copy, because reading may move the texts away.
  static absl::StatusOr<std::vector<int32_t>> ReadInput(const v1::Input& original, NewTurn& turn,
                                                        TurnInput& input, RequestCharge* charge) {
    const uint64_t bytes = original.SpaceUsedLong();
    if (absl::Status status = charge->Add(bytes); !status.ok()) return status;
    v1::Input copy = original;
    if (!copy.has_messages()) return input.Read(&copy, charge);
    TurnRequest rendered;
    absl::Status status = input.ReadMessages(copy.mutable_messages(), SessionState{},
                                             turn.host_memory(), charge, &rendered);
    if (!status.ok()) return status;
    return std::move(rendered.prompt);
  }

  const v1::CompareRequest& request_;
  RequestMemory* const memory_;
  const uint64_t received_bytes_;
};

// The values of an arm that generates. `seed`: of the arms before it; set by the first one.
absl::StatusOr<TurnRequest> CheckGenerating(const v1::CompareRequest& request,
                                            const v1::Sampling& sampling, const ServedModel& model,
                                            RequestMemory* memory, std::optional<uint64_t>* seed) {
  RequestCharge charge(memory, request.ByteSizeLong());
  const auto biases = static_cast<uint64_t>(sampling.logit_bias_size());
  absl::Status room = charge.Add(2 * biases * kCheckedBiasBytes);
  if (!room.ok()) return room;
  v1::GenerateRequest generate;
  *generate.mutable_sampling() = sampling;
  *generate.mutable_stop() = request.stop();
  generate.set_max_tokens(request.max_tokens());
  generate.set_log_probs(true);
  generate.set_top_log_probs(request.top_log_probs());
  generate.set_priority(request.priority());
  absl::StatusOr<TurnRequest> checked = CheckGenerate(generate, model);
  if (!checked.ok()) return checked;
  if (!sampling.has_seed()) {
    if (!seed->has_value()) *seed = checked->sampling.seed;
    checked->sampling.seed = **seed;
  }
  checked->own_session = true;
  return checked;
}

absl::StatusOr<TurnRequest> CheckScoring(const v1::CompareRequest& request,
                                         const ServedModel& model, Priority priority) {
  v1::ScoreRequest score;
  score.set_top_log_probs(request.top_log_probs());
  absl::StatusOr<TurnRequest> checked = CheckScore(score, model);
  if (checked.ok()) checked->priority = priority;
  return checked;
}

// Builds the plan of one request.
class Planner {
 public:
  Planner(const std::string& tenant, const v1::CompareRequest& request, RequestMemory* memory,
          const SessionManager& sessions, absl::StatusOr<NewTurn>* session)
      : tenant_(tenant),
        request_(request),
        memory_(memory),
        sessions_(sessions),
        session_turn_(session) {}

  absl::StatusOr<ComparePlan> Plan() {
    if (absl::Status status = CheckFields(request_); !status.ok()) return status;
    plan_.is_forced = request_.has_forced();
    if (request_.forced().has_text()) plan_.text_bytes = request_.forced().text().size();
    absl::Status status = FindModels();
    if (status.ok() && session_turn_ != nullptr) status = FindSession();
    if (status.ok()) status = CheckTokenizers();
    for (size_t arm = 0; arm < plan_.arms.size() && status.ok(); ++arm) status = CheckArm(arm);
    for (size_t arm = 0; arm < plan_.arms.size() && status.ok(); ++arm) status = ReadArm(arm);
    if (status.ok() && request_.forced().has_answer_of()) status = PlanAnswer();
    if (!status.ok()) return status;
    return std::move(plan_);
  }

 private:
  absl::StatusOr<NewTurn> NewArm(const std::string& model) const {
    if (!plan_.is_forced) {
      return sessions_.OwnTurn(tenant_, model, AskFor(request_.input(), request_.max_tokens()));
    }
    return sessions_.ScoreWith(tenant_, model, AskFor(request_.input(), /*max_tokens=*/1));
  }

  absl::Status FindModels() {
    for (int arm = 0; arm < request_.arms_size(); ++arm) {
      absl::StatusOr<NewTurn> turn = NewArm(request_.arms(arm).model());
      if (!turn.ok()) {
        return AboutModel(absl::StrCat("arms[", arm, "].model"), turn.status());
      }
      plan_.arms.emplace_back(*std::move(turn));
    }
    return absl::OkStatus();
  }

  absl::Status FindSession() {
    absl::StatusOr<SessionPrompt> session = ReadSession(*session_turn_);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    return absl::OkStatus();
  }

  absl::Status CheckTokenizers() {
    const ServedModel& baseline = plan_.arms[0].turn.model();
    const bool same_needed = plan_.is_forced && !request_.forced().has_text();
    for (size_t arm = 0; arm < plan_.arms.size(); ++arm) {
      const ServedModel& model = plan_.arms[arm].turn.model();
      if (session_turn_ != nullptr && model.tokenizer().fingerprint() != session_.tokenizer) {
        return absl::FailedPreconditionError(
            absl::StrCat("arms[", arm, "].model: model ", model.name(),
                         " has another tokenizer than the session's model ", session_.model));
      }
      plan_.arms[arm].not_comparable = WhyNotComparable(model, baseline);
      if (same_needed && model.tokenizer().fingerprint() != baseline.tokenizer().fingerprint()) {
        return absl::FailedPreconditionError(
            absl::StrCat("arms[", arm, "].model: ", plan_.arms[arm].not_comparable,
                         ", so both can only read the same forced.text"));
      }
    }
    return absl::OkStatus();
  }

  const v1::Sampling& SamplingOf(size_t arm) const {
    const v1::CompareArm& own = request_.arms(static_cast<int>(arm));
    return own.has_sampling() ? own.sampling() : request_.sampling();
  }

  absl::Status CheckArm(size_t arm) {
    ComparePlan::Arm& planned = plan_.arms[arm];
    absl::StatusOr<TurnRequest> checked =
        CheckGenerating(request_, SamplingOf(arm), planned.turn.model(), memory_, &seed_);
    if (checked.ok() && plan_.is_forced) {
      checked = CheckScoring(request_, planned.turn.model(), checked->priority);
    }
    if (!checked.ok()) return planned.turn.Refuse(InArm(arm, "", checked.status()));
    planned.request = *std::move(checked);
    return absl::OkStatus();
  }

  absl::Status ReadArm(size_t arm) {
    ComparePlan::Arm& planned = plan_.arms[arm];
    absl::Status leased = planned.turn.Lease();
    if (!leased.ok()) return planned.turn.Refuse(leased);
    absl::Status known = CheckIds(session_.state.tokens, planned.turn.model());
    if (!known.ok()) return planned.turn.Refuse(InArm(arm, ".model", known));
    absl::StatusOr<CompareInput::Read> read =
        CompareInput(request_, memory_).ReadFor(planned.turn, session_);
    if (!read.ok()) return planned.turn.Refuse(InArm(arm, "", read.status()));
    if (read->prompt.empty()) {
      return planned.turn.Refuse(
          Invalid("input: a comparison needs a text, token ids, messages or "
                  "a session before the first token that is compared"));
    }
    if (arm == 0) {
      baseline_ = *read;
    } else {
      planned.same_prompt = read->prompt == baseline_.prompt;
      if (planned.not_comparable.empty() && read->forced != baseline_.forced) {
        planned.not_comparable = "forced.text has other tokens behind the prompt of this arm";
      }
    }
    absl::Status first = SetFirstRow(arm, read->prompt.size());
    if (!first.ok()) return planned.turn.Refuse(first);
    planned.request.prompt = std::move(read->prompt);
    planned.request.prompt.insert(planned.request.prompt.end(), read->forced.begin(),
                                  read->forced.end());
    return absl::OkStatus();
  }

  // Decides with which token the rows of the arm begin.
  absl::Status SetFirstRow(size_t arm, uint64_t prompt_size) {
    ComparePlan::Arm& planned = plan_.arms[arm];
    planned.prompt_tokens = prompt_size;
    if (request_.forced().has_prompt_from()) {
      const uint64_t from = request_.forced().prompt_from();
      planned.prompt_tokens = std::max<uint64_t>(from, 1);
      if (planned.prompt_tokens >= prompt_size) {
        return Invalid("forced.prompt_from: expected less than ", prompt_size,
                       ", the tokens of the prompt, and a token before it; found ", from);
      }
      if (!planned.same_prompt) {
        return absl::FailedPreconditionError(absl::StrCat(
            "arms[", arm, "].model: model ", planned.turn.model().name(),
            " makes another prompt of the messages, so forced.prompt_from has no common tokens"));
      }
    }
    planned.request.logits_from = planned.prompt_tokens;
    return absl::OkStatus();
  }

  absl::Status PlanAnswer() {
    plan_.answer_of = request_.forced().answer_of();
    // Not another version than the arm's.
    NewTurn turn = plan_.arms[plan_.answer_of].turn.Another();
    if (absl::Status status = turn.Lease(); !status.ok()) return turn.Refuse(status);
    absl::StatusOr<TurnRequest> checked =
        CheckGenerating(request_, SamplingOf(plan_.answer_of), turn.model(), memory_, &seed_);
    if (!checked.ok()) return turn.Refuse(InArm(plan_.answer_of, "", checked.status()));
    checked->log_probs = false;
    checked->top_log_probs = 0;
    checked->prompt = plan_.arms[plan_.answer_of].request.prompt;
    plan_.answer.emplace(std::move(turn));
    plan_.answer->request = *std::move(checked);
    plan_.answer_seed = plan_.answer->request.sampling.seed;
    return absl::OkStatus();
  }

  const std::string& tenant_;
  const v1::CompareRequest& request_;
  RequestMemory* const memory_;
  const SessionManager& sessions_;
  absl::StatusOr<NewTurn>* const session_turn_;  // nullptr: the request names no session
  ComparePlan plan_;
  SessionPrompt session_;
  CompareInput::Read baseline_;
  std::optional<uint64_t> seed_;
};

}  // namespace

size_t TextBytes(const v1::CompareRequest& request) {
  const size_t input = TextBytes(request.input());
  const size_t all = input + request.forced().text().size();
  if (all < input) return input;  // messages count as the longest text
  return all * static_cast<size_t>(std::max(1, std::min(request.arms_size(), kMostArms)));
}

absl::StatusOr<ComparePlan> CheckCompare(const std::string& tenant, const std::string& request_id,
                                         MonotonicTime deadline, const v1::CompareRequest& request,
                                         RequestMemory* memory, const SessionManager& sessions,
                                         absl::StatusOr<NewTurn>* session) {
  absl::StatusOr<ComparePlan> plan = Planner(tenant, request, memory, sessions, session).Plan();
  if (!plan.ok()) return plan;
  const auto set = [&](ComparePlan::Arm& arm) {
    arm.request.deadline = deadline;
    arm.request.request_id = request_id;
  };
  for (ComparePlan::Arm& arm : plan->arms) set(arm);
  if (plan->answer.has_value()) set(*plan->answer);
  return plan;
}

}  // namespace longstream
