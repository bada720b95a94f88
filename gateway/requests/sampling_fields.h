// The fields of sampling and of the end of an answer. They have OpenAI's names. Those that OpenAI
// does not offer have vLLM's.
#ifndef LONGSTREAM_GATEWAY_REQUESTS_SAMPLING_FIELDS_H_
#define LONGSTREAM_GATEWAY_REQUESTS_SAMPLING_FIELDS_H_

#include <cstdint>
#include <string>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Throws BadRequest, which names `path`.
int32_t TokenId(const Json& value, const std::string& path);

// Throws BadRequest.
void ReadSampling(JsonObject& body, v1::Sampling* sampling);

// Throws BadRequest.
void ReadStopRule(JsonObject& body, v1::StopRule* stop);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_REQUESTS_SAMPLING_FIELDS_H_
