// The limits are those of longstream.proto; the server checks the rest.
#include "gateway/requests/sampling_fields.h"

#include <charconv>
#include <limits>
#include <optional>

#include "gateway/requests/common_fields.h"

namespace longstream::gateway {
namespace {

constexpr double kMostBias = 100;

}  // namespace

int32_t TokenId(const Json& value, const std::string& path) {
  const bool fits = value.is_number_integer() && value.get<int64_t>() >= 0 &&
                    value.get<int64_t>() <= std::numeric_limits<int32_t>::max();
  if (!fits) throw BadRequest(path, "expected token ids, found " + Shown(value));
  return value.get<int32_t>();
}

void ReadSampling(JsonObject& body, v1::Sampling* sampling) {
  constexpr double kMostTemperature = 1000;
  constexpr double kMostPenalty = 2;
  constexpr double kMostRepetition = 1e6;
  const auto number = [&body](const char* name, double least, double most) {
    const std::optional<double> value = body.Number(name, least, most);
    return value.has_value() ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
  };
  if (const auto v = number("temperature", 0, kMostTemperature)) sampling->set_temperature(*v);
  if (const auto v = number("top_p", 0, 1)) sampling->set_top_p(*v);
  if (const auto v = number("min_p", 0, 1)) sampling->set_min_p(*v);
  if (const auto v = number("repetition_penalty", 0, kMostRepetition)) {
    sampling->set_repetition_penalty(*v);
  }
  if (const auto v = number("presence_penalty", -kMostPenalty, kMostPenalty)) {
    sampling->set_presence_penalty(*v);
  }
  if (const auto v = number("frequency_penalty", -kMostPenalty, kMostPenalty)) {
    sampling->set_frequency_penalty(*v);
  }
  // vLLM's clients write -1 for "off".
  if (const auto v = body.Integer("top_k", -1, std::numeric_limits<int32_t>::max())) {
    sampling->set_top_k(static_cast<int32_t>(*v < 0 ? 0 : *v));
  }
  if (const auto v = body.Integer("seed", std::numeric_limits<int64_t>::min(),
                                  std::numeric_limits<int64_t>::max())) {
    sampling->set_seed(static_cast<uint64_t>(*v));
  }
  const Json* const biases = body.Find("logit_bias");
  if (biases == nullptr) return;
  JsonObject object(*biases, "logit_bias");
  for (const auto& [token, bias] : biases->items()) {
    int32_t id = -1;
    const char* const end = token.data() + token.size();
    const auto parsed = std::from_chars(token.data(), end, id);
    if (parsed.ec != std::errc() || parsed.ptr != end || id < 0) {
      throw BadRequest("logit_bias", Shown(Json(token)) + " is no token id");
    }
    const std::optional<double> value = object.Number(token, -kMostBias, kMostBias);
    if (value.has_value()) (*sampling->mutable_logit_bias())[id] = static_cast<float>(*value);
  }
}

void ReadStopRule(JsonObject& body, v1::StopRule* stop) {
  const auto tokens = body.Integer("min_tokens", 0, std::numeric_limits<uint32_t>::max());
  if (tokens.has_value()) stop->set_min_tokens(static_cast<uint32_t>(*tokens));
  if (const auto ignore = body.Bool("ignore_eos")) stop->set_ignore_eos(*ignore);
  if (const Json* const ids = body.Find("stop_token_ids"); ids != nullptr) {
    if (!ids->is_array()) throw BadRequest("stop_token_ids", "expected an array of token ids");
    for (const Json& id : *ids) stop->add_token_ids(TokenId(id, "stop_token_ids"));
  }
  const Json* const strings = body.Find("stop");
  const bool is_one = strings != nullptr && strings->is_string();
  const Json one = is_one ? Json::array({*strings}) : Json();
  ReadStopStrings(is_one ? &one : strings, "stop", stop);
}

}  // namespace longstream::gateway
