#include "gateway/openai/log_probs.h"

#include <cstdint>

namespace longstream::gateway {
namespace {

// The bytes as text: U+FFFD in the place of what is no whole character.
std::string AsText(const std::string& bytes) {
  const std::string quoted = JsonToText(Json(bytes));
  return Json::parse(quoted).get<std::string>();
}

Json Bytes(const std::string& bytes) {
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<uint8_t>(c));
  return numbers;
}

template <typename Token>
Json Entry(const Token& token) {
  return {{"token", AsText(token.token())},
          {"logprob", token.log_prob()},
          {"bytes", Bytes(token.token())}};
}

size_t NumCharacters(const std::string& text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace

Json ChatLogProbs(const TokenLogProbs& tokens) {
  Json content = Json::array();
  for (const v1::TokenLogProb& token : tokens) {
    Json entry = Entry(token);
    Json& top = entry["top_logprobs"] = Json::array();
    for (const v1::TopToken& one : token.top()) top.push_back(Entry(one));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogProbs(const TokenLogProbs& tokens, size_t* offset) {
  Json names = Json::array();
  Json values = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  for (const v1::TokenLogProb& token : tokens) {
    const std::string text = AsText(token.token());
    names.push_back(text);
    values.push_back(token.log_prob());
    Json top = Json::object();
    for (const v1::TopToken& one : token.top()) top[AsText(one.token())] = one.log_prob();
    tops.push_back(std::move(top));
    offsets.push_back(*offset);
    *offset += NumCharacters(text);
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace longstream::gateway
