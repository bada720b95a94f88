// Parses the lines and converts them to messages of the wire.
#include "client/compare/command/prompts.h"

#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void Fail(const std::string& field, const std::string& what) {
  throw std::invalid_argument(field + ": " + what);
}

std::string Text(const Json& json, const std::string& field) {
  if (!json.is_string()) Fail(field, "expected a string, found " + std::string(json.type_name()));
  return json.get<std::string>();
}

std::string TextThatIsNotEmpty(const Json& json, const std::string& field) {
  std::string text = Text(json, field);
  if (text.empty()) Fail(field, "is empty");
  return text;
}

const Json& Array(const Json& json, const std::string& field) {
  if (!json.is_array()) Fail(field, "expected an array, found " + std::string(json.type_name()));
  if (json.empty()) Fail(field, "is empty");
  return json;
}

void FillTokens(const Json& json, v1::Tokens* tokens) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const Json& id : Array(json, "tokens")) {
    // A number beyond 2^63 is unsigned for the parser.
    const bool fits = id.is_number_integer() &&
                      (!id.is_number_unsigned() || id.get<uint64_t>() <= uint64_t{kMost}) &&
                      id.get<int64_t>() >= 0;
    if (!fits) {
      Fail("tokens[" + std::to_string(tokens->ids_size()) + "]",
           "expected a token id from 0 to " + std::to_string(kMost) + ", found " + id.dump());
    }
    tokens->add_ids(id.get<int32_t>());
  }
}

void FillMessage(const Json& json, const std::string& field, v1::Message* message) {
  if (!json.is_object()) Fail(field, "expected an object, found " + std::string(json.type_name()));
  Json others = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (key == "role") {
      message->set_role(TextThatIsNotEmpty(value, field + ".role"));
    } else if (key == "content" && value.is_string()) {
      message->set_content(value.get<std::string>());
    } else {
      others[key] = value;
    }
  }
  if (message->role().empty()) Fail(field + ".role", "is missing");
  if (!others.empty()) message->set_json(others.dump());
}

void FillMessages(const Json& json, v1::Messages* messages) {
  for (const Json& entry : Array(json, "messages")) {
    const std::string field = "messages[" + std::to_string(messages->messages_size()) + "]";
    FillMessage(entry, field, messages->add_messages());
  }
}

std::string Id(const Json& json) {
  if (json.is_number_integer()) return json.dump();
  return TextThatIsNotEmpty(json, "id");
}

Prompt ParseLine(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw std::invalid_argument("is not valid JSON");
  if (!json.is_object()) {
    throw std::invalid_argument("expected a JSON object, found " + std::string(json.type_name()));
  }
  Prompt prompt;
  for (const auto& [key, value] : json.items()) {
    const bool is_input = key == "text" || key == "tokens" || key == "messages";
    if (is_input && prompt.input.kind_case() != v1::Input::KIND_NOT_SET) {
      Fail(key, "a prompt has only one of text, tokens and messages");
    }
    if (key == "text") {
      prompt.input.set_text(TextThatIsNotEmpty(value, key));
    } else if (key == "tokens") {
      FillTokens(value, prompt.input.mutable_tokens());
    } else if (key == "messages") {
      FillMessages(value, prompt.input.mutable_messages());
    } else if (key == "continuation") {
      prompt.continuation = TextThatIsNotEmpty(value, key);
    } else if (key == "id") {
      prompt.id = Id(value);
    } else {
      Fail(key, "is not a field of a prompt: id, text, tokens, messages, continuation");
    }
  }
  if (prompt.input.kind_case() == v1::Input::KIND_NOT_SET) {
    throw std::invalid_argument("a prompt needs one of text, tokens and messages");
  }
  return prompt;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::vector<Prompt> ParsePrompts(std::string_view file) {
  std::vector<Prompt> prompts;
  std::map<std::string, size_t> lines;  // of each id
  size_t number = 1;
  for (size_t begin = 0; begin < file.size(); ++number) {
    const size_t end = std::min(file.find('\n', begin), file.size());
    const std::string_view line = file.substr(begin, end - begin);
    begin = end + 1;
    if (IsBlank(line)) continue;
    try {
      Prompt& prompt = prompts.emplace_back(ParseLine(line));
      prompt.line = number;
      if (prompt.id.empty()) prompt.id = std::to_string(number);
      const auto [earlier, is_new] = lines.emplace(prompt.id, number);
      if (!is_new) {
        Fail("id", "\"" + prompt.id + "\" is the id of line " + std::to_string(earlier->second));
      }
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (prompts.empty()) throw std::invalid_argument("has no prompt");
  return prompts;
}

}  // namespace longstream::client
