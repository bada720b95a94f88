// The golden files of tests/golden/chat, made by tools/golden/chat_golden.py.
#ifndef LONGSTREAM_TESTS_SERVICE_CHAT_CHAT_GOLDEN_H_
#define LONGSTREAM_TESTS_SERVICE_CHAT_CHAT_GOLDEN_H_

#include <filesystem>
#include <string>

#include "nlohmann/json.hpp"
#include "service/chat/chat_template.h"
#include "service/chat/conversation.h"

namespace longstream::chat {

// Keeps the order of an object's members, as Python does.
using Json = nlohmann::ordered_json;

// The golden files of the repository, or the directory named by LONGSTREAM_CHAT_GOLDEN.
std::filesystem::path GoldenDirectory();
std::string ReadText(const std::filesystem::path& path);
Json ReadJsonFile(const std::filesystem::path& path);

Value ToValue(const Json& json, bool is_foreign = true);
// The conversation that a case of a golden file renders.
Conversation ToConversation(const Json& test_case);
Dict SpecialTokens(const Json& holder);
// Render options whose time is the time at which the golden files were made.
RenderOptions GoldenOptions();

}  // namespace longstream::chat

#endif  // LONGSTREAM_TESTS_SERVICE_CHAT_CHAT_GOLDEN_H_
