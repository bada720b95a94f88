// Predicts each arm, compares the predictions with the budgets, and says why an arm was chosen.
#include "service/routing/route_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace longstream {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string Seconds(double seconds) {
  return seconds < 1.0 ? absl::StrFormat("%.3g ms", seconds * 1e3)
                       : absl::StrFormat("%.3g s", seconds);
}

std::string MebiBytes(uint64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMiB);
}

// The request with the values of the alias in place of those that it does not say.
RouteAsk Complete(const RouteConfig& config, RouteAsk ask) {
  if (ask.prompt_tokens == 0 && ask.prompt_bytes == 0) ask.prompt_tokens = config.prompt_tokens;
  if (ask.max_tokens == 0) ask.max_tokens = config.max_tokens;
  RouteBudgets& budgets = ask.budgets;
  const RouteBudgets& defaults = config.budgets;
  if (!budgets.time_to_first_token) budgets.time_to_first_token = defaults.time_to_first_token;
  if (!budgets.time_per_token) budgets.time_per_token = defaults.time_per_token;
  if (budgets.session_bytes == 0) budgets.session_bytes = defaults.session_bytes;
  return ask;
}

// A prediction, and what it may be.
struct Limit {
  const char* name;
  double quotient = 0.0;  // above 1: the limit is exceeded
  std::string text;
};

std::vector<Limit> LimitsOf(const ArmPrediction& arm, const ArmCosts& costs, const RouteAsk& ask) {
  std::vector<Limit> limits;
  const auto add_time = [&](const char* name, double seconds,
                            const std::optional<absl::Duration>& most, const char* what) {
    if (!most.has_value()) return;
    const double budget = absl::ToDoubleSeconds(*most);
    limits.push_back({name, seconds / budget,
                      absl::StrCat(Seconds(seconds), what, " (at most ", Seconds(budget), ")")});
  };
  add_time("max_time_to_first_token", arm.time_to_first_token, ask.budgets.time_to_first_token,
           " to the first token");
  add_time("max_time_per_token", arm.time_per_token, ask.budgets.time_per_token, " a token");
  if (ask.budgets.session_bytes > 0) {
    limits.push_back(
        {"max_session_bytes",
         static_cast<double>(arm.session_bytes) / static_cast<double>(ask.budgets.session_bytes),
         absl::StrCat(MebiBytes(arm.session_bytes), " (at most ",
                      MebiBytes(ask.budgets.session_bytes), ")")});
  }
  const uint64_t tokens = arm.prompt_tokens + ask.max_tokens;
  if (tokens > costs.context_limit) {
    limits.push_back({"context",
                      static_cast<double>(tokens) /
                          static_cast<double>(std::max<uint64_t>(1, costs.context_limit)),
                      absl::StrCat(tokens, " tokens (at most ", costs.context_limit, ")")});
  }
  return limits;
}

// An arm with its prediction and its limits.
struct Judged {
  ArmPrediction prediction;
  std::vector<Limit> limits;
  bool is_candidate = true;  // false: it is not served, and another arm is

  bool fits() const { return prediction.excess <= 1.0; }
  std::string Numbers() const {
    return absl::StrJoin(limits, ", ", [](std::string* text, const Limit& limit) {
      absl::StrAppend(text, limit.text);
    });
  }
  const Limit* Worst() const {
    const auto worst =
        std::max_element(limits.begin(), limits.end(),
                         [](const Limit& a, const Limit& b) { return a.quotient < b.quotient; });
    return worst == limits.end() ? nullptr : &*worst;
  }
  std::string Excess() const {
    const Limit* const worst = Worst();
    if (worst == nullptr) return "";
    return absl::StrCat(prediction.model, " exceeds ", worst->name, ": ", worst->text);
  }
};

Judged Judge(const RouteArm& arm, const RouteAsk& ask) {
  Judged judged;
  ArmPrediction& to = judged.prediction;
  to.model = arm.model;
  if (!arm.costs.has_value()) return judged;
  const ArmCosts& costs = *arm.costs;
  to.measured = true;
  to.prompt_tokens = ask.prompt_tokens > 0 ? ask.prompt_tokens : costs.TokensOf(ask.prompt_bytes);
  to.time_to_first_token = costs.PrefillSeconds(to.prompt_tokens);
  to.time_per_token = costs.SecondsPerToken(to.prompt_tokens, ask.max_tokens);
  to.total_time = to.time_to_first_token + to.time_per_token * static_cast<double>(ask.max_tokens);
  to.session_bytes = costs.SessionBytes(to.prompt_tokens + ask.max_tokens);
  judged.limits = LimitsOf(to, costs, ask);
  if (const Limit* const worst = judged.Worst()) {
    to.excess = worst->quotient;
    if (to.excess > 1.0) to.exceeds = worst->name;
  }
  return judged;
}

// "for 2048 prompt tokens and 256 to generate"
std::string Request(const ArmPrediction& arm, const RouteAsk& ask) {
  return absl::StrCat("for ", arm.prompt_tokens, " prompt tokens and ", ask.max_tokens,
                      " to generate");
}

std::string LeastTimeText(const std::vector<Judged>& arms, size_t chosen, const RouteAsk& ask) {
  const ArmPrediction& arm = arms[chosen].prediction;
  std::string text = absl::StrCat(arm.model, " takes the least time ", Request(arm, ask), ": ",
                                  Seconds(arm.total_time));
  for (size_t i = 0; i < arms.size(); ++i) {
    const ArmPrediction& other = arms[i].prediction;
    if (i == chosen || !other.measured || !arms[i].is_candidate) continue;
    absl::StrAppend(&text, "; ",
                    arms[i].fits() ? absl::StrCat(other.model, ": ", Seconds(other.total_time))
                                   : arms[i].Excess());
  }
  return text;
}

std::string WhyNot(const Judged& arm) {
  if (!arm.is_candidate) return absl::StrCat(arm.prediction.model, " is not served now");
  if (arm.prediction.measured) return arm.Excess();
  return absl::StrCat(arm.prediction.model, " has not been measured yet");
}

std::string WithinText(const std::vector<Judged>& arms, size_t chosen, const RouteAsk& ask) {
  const ArmPrediction& arm = arms[chosen].prediction;
  std::string text = absl::StrCat(arm.model, " is the first arm within the budgets ",
                                  Request(arm, ask), ": ", arms[chosen].Numbers());
  for (size_t i = 0; i < chosen; ++i) {
    absl::StrAppend(&text, "; ", WhyNot(arms[i]));
  }
  return text;
}

// The measured candidate with the least key; the first one of equal ones. `size`: there is none.
template <typename Key>
size_t LeastOf(const std::vector<Judged>& arms, const Key& key) {
  size_t least = arms.size();
  for (size_t i = 0; i < arms.size(); ++i) {
    if (!arms[i].prediction.measured || !arms[i].is_candidate) continue;
    if (least == arms.size() || key(arms[i]) < key(arms[least])) least = i;
  }
  return least;
}

void Decide(const std::vector<Judged>& arms, const RouteAsk& ask, RouteDecision* decision) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto choose = [&](size_t arm, RouteReason reason, std::string text) {
    decision->arm = arm;
    decision->reason = reason;
    decision->text = std::move(text);
  };
  const auto first = std::find_if(arms.begin(), arms.end(), [](const Judged& arm) {
    return arm.is_candidate && arm.prediction.measured && arm.fits();
  });
  if (first == arms.end()) {
    const size_t least = LeastOf(arms, [](const Judged& arm) { return arm.prediction.excess; });
    if (least < arms.size()) {
      return choose(least, RouteReason::kLeastExcess,
                    absl::StrCat("no arm is within the budgets and the context ",
                                 Request(arms[least].prediction, ask), ", and ",
                                 arms[least].Excess(), ", the least excess"));
    }
    const auto candidate =
        std::find_if(arms.begin(), arms.end(), [](const Judged& arm) { return arm.is_candidate; });
    const bool is_first = candidate == arms.begin();
    return choose(static_cast<size_t>(candidate - arms.begin()), RouteReason::kNotMeasured,
                  absl::StrCat("no arm has been measured on this machine yet, and ",
                               candidate->prediction.model,
                               is_first ? " is the first" : " is the first that is served"));
  }
  if (!ask.budgets.any()) {
    const size_t least = LeastOf(
        arms, [&](const Judged& arm) { return arm.fits() ? arm.prediction.total_time : kNever; });
    return choose(least, RouteReason::kLeastTime, LeastTimeText(arms, least, ask));
  }
  const auto arm = static_cast<size_t>(first - arms.begin());
  choose(arm, arm == 0 ? RouteReason::kPreferred : RouteReason::kFirstWithin,
         WithinText(arms, arm, ask));
}

}  // namespace

const char* NameOf(RouteReason reason) {
  switch (reason) {
    case RouteReason::kLeastTime:
      return "least_time";
    case RouteReason::kPreferred:
      return "preferred";
    case RouteReason::kFirstWithin:
      return "first_within";
    case RouteReason::kLeastExcess:
      return "least_excess";
    case RouteReason::kNotMeasured:
      return "not_measured";
    case RouteReason::kNone:
      break;
  }
  return "none";
}

uint64_t BytesOf(const RouteDecision& decision) {
  uint64_t bytes = sizeof(decision) + decision.text.capacity();
  for (const ArmPrediction& arm : decision.arms) {
    bytes += sizeof(arm) + arm.model.capacity() + arm.exceeds.capacity();
  }
  return bytes;
}

RouteDecision ChooseRoute(std::span<const RouteArm> arms, const RouteConfig& config,
                          const RouteAsk& ask) {
  const RouteAsk complete = Complete(config, ask);
  std::vector<Judged> judged;
  judged.reserve(arms.size());
  const bool any_served =
      std::any_of(arms.begin(), arms.end(), [](const RouteArm& arm) { return arm.served; });
  for (const RouteArm& arm : arms) {
    judged.push_back(Judge(arm, complete));
    judged.back().is_candidate = arm.served || !any_served;
  }
  RouteDecision decision;
  Decide(judged, complete, &decision);
  for (Judged& arm : judged) decision.arms.push_back(std::move(arm.prediction));
  return decision;
}

}  // namespace longstream
