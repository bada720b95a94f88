// Log-probabilities in the forms of OpenAI's API.
#ifndef LONGSTREAM_GATEWAY_OPENAI_LOG_PROBS_H_
#define LONGSTREAM_GATEWAY_OPENAI_LOG_PROBS_H_

#include <string>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

using TokenLogProbs = google::protobuf::RepeatedPtrField<v1::TokenLogProb>;

// Chat completions: {"content": [...], "refusal": null}, one element a token.
Json ChatLogProbs(const TokenLogProbs& tokens);

// Completions: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. `offset`: of the first
// token in the text of the answer, in characters; moves behind the last token.
Json CompletionLogProbs(const TokenLogProbs& tokens, size_t* offset);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_LOG_PROBS_H_
