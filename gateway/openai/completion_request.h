// The request of POST /v1/completions.
#ifndef LONGSTREAM_GATEWAY_OPENAI_COMPLETION_REQUEST_H_
#define LONGSTREAM_GATEWAY_OPENAI_COMPLETION_REQUEST_H_

#include <vector>

#include "gateway/json/json_object.h"
#include "gateway/openai/turn_fields.h"

namespace longstream::gateway {

struct CompletionRequest {
  TurnFields fields;               // fields.request has no input
  std::vector<v1::Input> prompts;  // one or more; each gets fields.choices answers
};

// Throws BadRequest.
CompletionRequest ReadCompletionRequest(const Json& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_COMPLETION_REQUEST_H_
