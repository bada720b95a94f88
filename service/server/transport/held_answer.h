// The objects of a call with one answer, which exist until gRPC is done with the call.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_HELD_ANSWER_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_HELD_ANSWER_H_

#include <optional>

#include "service/server/transport/call_count.h"
#include "service/wire/request_memory.h"

namespace longstream {

struct HeldAnswer {
  explicit HeldAnswer(CallCount* calls) : call(calls) {}

  const CallCount::Call call;
  std::optional<RequestCharge> answer;  // the memory of the answer
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_HELD_ANSWER_H_
