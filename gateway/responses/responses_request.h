// The request of POST /v1/responses.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSES_REQUEST_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSES_REQUEST_H_

#include <optional>
#include <string>
#include <vector>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

struct ResponsesRequest {
  std::string model;
  v1::GenerateRequest request;              // input.messages has tools and template arguments only
  std::vector<v1::Message> messages;        // of the input
  std::optional<std::string> instructions;  // a message of the system, for this response alone
  std::string previous_response_id;         // empty: none
  bool with_calls = false;                  // the model may call functions
  bool stream = false;
  bool store = true;        // the response can be referred to later
  bool background = false;  // the response is made without its client
  // Members of the response that repeat those of the request.
  Json repeated;
};

// Throws BadRequest.
ResponsesRequest ReadResponsesRequest(const Json& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSES_REQUEST_H_
