// The fields of a request that chat completions and completions share.
#ifndef LONGSTREAM_GATEWAY_OPENAI_TURN_FIELDS_H_
#define LONGSTREAM_GATEWAY_OPENAI_TURN_FIELDS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Limits of both.
inline constexpr int64_t kMostTopLogProbs = 20;
inline constexpr size_t kMostChoices = 16;  // answers to one prompt
inline constexpr int64_t kMostTokens = std::numeric_limits<uint32_t>::max();

struct TurnFields {
  std::string model;
  bool stream = false;
  bool include_usage = false;   // a last chunk of the stream has the usage
  size_t choices = 1;           // answers to each prompt
  v1::GenerateRequest request;  // sampling, stop rule, max_tokens
};

// Reads `model`, `stream`, `n`, the fields of sampling and the stop rule. Throws BadRequest.
TurnFields ReadTurnFields(JsonObject& body);

// With a seed, each choice has the next one, so that they differ.
void SetSeedOfChoice(size_t choice, v1::GenerateRequest* request);

// Reads the fields that change nothing here, and refuses those of features that are not offered.
void ReadOtherFields(JsonObject& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_TURN_FIELDS_H_
