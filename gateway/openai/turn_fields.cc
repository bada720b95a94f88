#include "gateway/openai/turn_fields.h"

#include "gateway/requests/sampling_fields.h"

namespace longstream::gateway {

TurnFields ReadTurnFields(JsonObject& body) {
  TurnFields fields;
  fields.model = body.Text("model").value_or("");
  fields.stream = body.Bool("stream").value_or(false);
  if (const Json* const options = body.Find("stream_options"); options != nullptr) {
    JsonObject object(*options, "stream_options");
    fields.include_usage = object.Bool("include_usage").value_or(false);
    object.Ignore({"include_obfuscation", "continuous_usage_stats"});
    object.ExpectAllRead();
    if (!fields.stream) throw BadRequest("stream_options", "only with \"stream\": true");
  }
  const auto choices = body.Integer("n", 1, static_cast<int64_t>(kMostChoices));
  fields.choices = static_cast<size_t>(choices.value_or(1));
  body.Refuse("best_of", "all answers are sent, so it must equal n", fields.choices);
  ReadSampling(body, fields.request.mutable_sampling());
  ReadStopRule(body, fields.request.mutable_stop());
  return fields;
}

void SetSeedOfChoice(size_t choice, v1::GenerateRequest* request) {
  if (!request->sampling().has_seed()) return;
  request->mutable_sampling()->set_seed(request->sampling().seed() + choice);
}

void ReadOtherFields(JsonObject& body) {
  // Fields of vLLM and llama.cpp that their clients send with these values.
  body.Refuse("skip_special_tokens", "special tokens have no text (true)", true);
  body.Refuse("return_token_ids", "token ids are in logprobs (false)", false);
  body.Refuse("cache_prompt", "the prompt is always cached (true)", true);
  body.Ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
               "prompt_cache_options", "prompt_cache_retention"});
}

}  // namespace longstream::gateway
