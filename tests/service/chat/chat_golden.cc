// Reads the golden files of the chat tests.
#include "tests/service/chat/chat_golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "service/jinja/values/json_reader.h"

namespace longstream::chat {

std::filesystem::path GoldenDirectory() {
  const char* given = std::getenv("LONGSTREAM_CHAT_GOLDEN");
  if (given != nullptr) return given;
  return std::filesystem::path(LONGSTREAM_SOURCE_DIR) / "tests" / "golden" / "chat";
}

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Json ReadJsonFile(const std::filesystem::path& path) { return Json::parse(ReadText(path)); }

Value ToValue(const Json& json, bool is_foreign) {
  return ReadJson(json.dump(), is_foreign).value();
}

Conversation ToConversation(const Json& test_case) {
  const auto member = [&](const char* name) { return test_case.value(name, Json()); };
  Conversation conversation;
  for (const Json& message : member("messages")) conversation.messages.push_back(ToValue(message));
  conversation.tools = ToValue(member("tools"));
  conversation.documents = ToValue(member("documents"));
  const Json arguments = member("arguments");
  if (arguments.is_object()) conversation.arguments = ToValue(arguments).dict();
  conversation.add_generation_prompt = test_case.value("add_generation_prompt", false);
  conversation.continue_final_message = test_case.value("continue_final_message", false);
  return conversation;
}

Dict SpecialTokens(const Json& holder) {
  Dict tokens;
  for (const char* name : {"bos_token", "eos_token"}) {
    if (holder.contains(name) && holder[name].is_string()) {
      tokens.Set(Text(name), ToValue(holder[name], /*is_foreign=*/false));
    }
  }
  return tokens;
}

RenderOptions GoldenOptions() {
  RenderOptions options;
  std::tm& now = options.now;
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 5;
  now.tm_hour = 14;
  now.tm_min = 7;
  now.tm_sec = 9;
  now.tm_wday = 4;
  now.tm_yday = 63;
  return options;
}

}  // namespace longstream::chat
