// Times, and the budgets and routes that have them, on the wire.
#ifndef LONGSTREAM_SERVICE_SERVER_ROUTING_WIRE_TIMES_H_
#define LONGSTREAM_SERVICE_SERVER_ROUTING_WIRE_TIMES_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "service/routing/route_config.h"

namespace longstream {

// A time that is not valid becomes negative, which every limit refuses.
absl::Duration TimeFrom(const google::protobuf::Duration& message);
// A longer duration than protobuf can hold, 10 000 years, becomes the longest one.
void SetDuration(absl::Duration duration, google::protobuf::Duration* message);

// REQUIRES: not before 1970.
void SetTime(absl::Time time, google::protobuf::Timestamp* message);

// Budgets and routes have the same fields in several messages.
template <typename Message>
RouteBudgets BudgetsFrom(const Message& message) {
  RouteBudgets budgets;
  if (message.has_max_time_to_first_token()) {
    budgets.time_to_first_token = TimeFrom(message.max_time_to_first_token());
  }
  if (message.has_max_time_per_token()) {
    budgets.time_per_token = TimeFrom(message.max_time_per_token());
  }
  budgets.session_bytes = message.max_session_bytes();
  return budgets;
}

template <typename Message>
void SetRoute(const RouteConfig& route, Message* message) {
  if (const auto& time = route.budgets.time_to_first_token) {
    SetDuration(*time, message->mutable_max_time_to_first_token());
  }
  if (const auto& time = route.budgets.time_per_token) {
    SetDuration(*time, message->mutable_max_time_per_token());
  }
  message->set_max_session_bytes(route.budgets.session_bytes);
  message->set_prompt_tokens(route.prompt_tokens);
  message->set_max_tokens(route.max_tokens);
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_ROUTING_WIRE_TIMES_H_
