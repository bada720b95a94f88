// Chooses one of several models for a request by its length, its budgets and the measured costs of
// the models. Pure functions.
#ifndef LONGSTREAM_SERVICE_ROUTING_ROUTE_CHOICE_H_
#define LONGSTREAM_SERVICE_ROUTING_ROUTE_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "service/routing/arm_costs.h"
#include "service/routing/route_config.h"

namespace longstream {

// The expectations that a request states. 0: it states none, and the value of the alias counts.
struct RouteAsk {
  uint64_t prompt_tokens = 0;
  uint64_t prompt_bytes = 0;  // of text, if prompt_tokens is 0
  uint64_t max_tokens = 0;
  RouteBudgets budgets = {};

  friend bool operator==(const RouteAsk&, const RouteAsk&) = default;
};

// Why an arm was chosen.
enum class RouteReason {
  kNone,         // nothing was routed
  kLeastTime,    // there are no budgets, and this arm takes the least time for prompt and answer
  kPreferred,    // the first arm in the operator's order is within all budgets
  kFirstWithin,  // arms before it exceed a budget or the context, and this one is within all
  kLeastExcess,  // no arm is within all budgets, and this one exceeds them by the least factor
  kNotMeasured,  // no arm has been measured yet: the first one that is served
};
// "least_time", ...: a label in Prometheus.
const char* NameOf(RouteReason reason);

// The predicted costs of a request on one arm, on a machine that does nothing else.
struct ArmPrediction {
  std::string model;
  bool measured = false;  // false: the fields below are 0
  uint64_t prompt_tokens = 0;
  double time_to_first_token = 0.0;  // seconds
  double time_per_token = 0.0;       // seconds, the mean of the answer
  double total_time = 0.0;           // seconds, to the end of the answer
  uint64_t session_bytes = 0;        // of a session with prompt and answer
  // The largest quotient of one of these and its budget; of the tokens and the context, if they do
  // not fit. At most 1: the arm is within all budgets. 0: there are none.
  double excess = 0.0;
  std::string exceeds;  // the budget with this quotient, if it is above 1
};

struct RouteDecision {
  size_t arm = 0;  // the index
  RouteReason reason = RouteReason::kNone;
  std::string text;                 // the reason as a sentence with the numbers
  std::vector<ArmPrediction> arms;  // in the order of the arms
};

// Bytes on the heap that a decision takes, about.
uint64_t BytesOf(const RouteDecision& decision);

struct RouteArm {
  std::string model;
  std::optional<ArmCosts> costs;  // nullopt: not measured
  bool served = true;             // now, by a model that is READY
};

// REQUIRES: arms is not empty.
//
// With budgets: the first arm, in the order of preference, that is within all of them. Without: the
// arm that takes the least time for prompt and answer together. Arms whose context is too short
// count as beyond a budget, and arms that were not measured are chosen only if none was. An arm
// that is not served is chosen only if none is.
RouteDecision ChooseRoute(std::span<const RouteArm> arms, const RouteConfig& config,
                          const RouteAsk& ask);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ROUTING_ROUTE_CHOICE_H_
