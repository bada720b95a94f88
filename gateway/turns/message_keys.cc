#include "gateway/turns/message_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace longstream::gateway {
namespace {

// Clients repeat the members of a message in another order.
std::string SortedJson(const std::string& json) {
  return json.empty() ? "" : nlohmann::json::parse(json).dump();
}

// Clients repeat an answer with its thoughts, without them, or with the thoughts in its text. All
// of them find the session: the server compares the texts, so a session with other thoughts does no
// harm.
std::string_view WithoutThoughts(std::string_view text) {
  constexpr std::string_view kBegin = "<think>";
  constexpr std::string_view kEnd = "</think>";
  constexpr std::string_view kSpaces = " \n\r\t";
  if (const size_t end = text.find(kEnd); end != std::string_view::npos) {
    text.remove_prefix(end + kEnd.size());
  } else if (text.substr(std::min(text.find_first_not_of(kSpaces), text.size()))
                 .starts_with(kBegin)) {
    return "";
  }
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

std::string MembersWithoutThoughts(const std::string& json) {
  if (json.empty()) return "";
  nlohmann::json members = nlohmann::json::parse(json);
  for (const char* const name : {"reasoning_content", "reasoning", "reasoning_details"}) {
    members.erase(name);
  }
  return members.empty() ? "" : members.dump();
}

}  // namespace

ConversationKey KeyAfter(const ConversationKey& before, const v1::Message& message) {
  if (message.role() != "assistant") {
    return NextKey(before, {message.role(), message.content(), SortedJson(message.json())});
  }
  return NextKey(before, {message.role(), WithoutThoughts(message.content()),
                          MembersWithoutThoughts(message.json())});
}

std::vector<ConversationKey> KeysOf(const ConversationKey& beginning,
                                    const v1::Messages& messages) {
  std::vector<ConversationKey> keys;
  ConversationKey last = beginning;
  for (const v1::Message& message : messages.messages()) {
    last = KeyAfter(last, message);
    keys.push_back(last);
  }
  return keys;
}

}  // namespace longstream::gateway
