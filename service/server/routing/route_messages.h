// Messages that state the expectations of a client, and the choice of a route with its reason.
#ifndef LONGSTREAM_SERVICE_SERVER_ROUTING_ROUTE_MESSAGES_H_
#define LONGSTREAM_SERVICE_SERVER_ROUTING_ROUTE_MESSAGES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/routing/route_choice.h"

namespace longstream {

// INVALID_ARGUMENT: a value is out of its range. The message names the field ("expect.max_tokens").
absl::StatusOr<RouteAsk> CheckExpectation(const v1::Expectation& expect);

// The request for a model that reads this input in an empty session, behind `earlier` tokens, and
// generates. max_tokens 0: the value of the alias.
RouteAsk AskFor(const v1::Input& input, uint64_t max_tokens, uint64_t earlier = 0);

void ToProto(const RouteDecision& decision, v1::Routing* message);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_ROUTING_ROUTE_MESSAGES_H_
