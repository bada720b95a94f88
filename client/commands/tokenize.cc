// `longstream tokenize`: shows a text, or a conversation, as the tokens of a model.
#include <cstdio>
#include <memory>
#include <string>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string text;
  std::string file;
  std::string messages;
  bool parse_special = false;
  bool no_special = false;
  bool count = false;
};

[[noreturn]] void RefuseMessages(const std::string& what) {
  throw CLI::ValidationError("--messages", what);
}

// Reads a JSON array of messages, or an object with "messages" and "tools".
void ReadMessages(const std::string& file, v1::Messages* messages) {
  nlohmann::json read =
      nlohmann::json::parse(ReadFile(file, "--messages"), nullptr, /*allow_exceptions=*/false);
  if (read.is_object() && read.contains("messages")) {
    if (read.contains("tools")) messages->set_tools(read["tools"].dump());
    read = nlohmann::json(read["messages"]);
  }
  if (!read.is_array()) RefuseMessages("the file has no JSON array of messages");
  for (nlohmann::json& member : read) {
    if (!member.is_object() || !member.contains("role") || !member["role"].is_string()) {
      RefuseMessages("each message needs a \"role\"");
    }
    v1::Message* const message = messages->add_messages();
    message->set_role(member["role"].get<std::string>());
    member.erase("role");
    if (member.contains("content") && member["content"].is_string()) {
      message->set_content(member["content"].get<std::string>());
      member.erase("content");
    }
    if (!member.empty()) message->set_json(member.dump());
  }
}

v1::TokenizeRequest Request(const TokenizeOptions& options) {
  v1::TokenizeRequest request;
  request.set_model(options.model);
  if (!options.messages.empty()) {
    ReadMessages(options.messages, request.mutable_input()->mutable_messages());
  } else {
    request.mutable_input()->set_text(options.file.empty() ? options.text
                                                           : ReadFile(options.file, "--file"));
  }
  request.set_parse_special(options.parse_special);
  request.set_add_special(!options.no_special);
  request.set_count_only(options.count);
  request.set_pieces(!options.count);
  return request;
}

// The bytes of a token as a JSON string, in which bytes that are no character become U+FFFD.
std::string Quoted(const std::string& piece) {
  return nlohmann::json(piece).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Tokenize(const Global& global, const TokenizeOptions& options) {
  const v1::TokenizeRequest request = Request(options);
  const v1::TokenizeResponse tokens = Connect(global, options.model).Tokenize(request);
  if (global.json) return PrintJson(tokens);
  for (int i = 0; i < tokens.token_ids_size(); ++i) {
    std::printf("%8d  %s\n", tokens.token_ids(i), Quoted(tokens.pieces(i)).c_str());
  }
  std::printf("%llu tokens of %s, whose context has %llu\n",
              static_cast<unsigned long long>(tokens.count()), tokens.model().c_str(),
              static_cast<unsigned long long>(tokens.context_limit()));
}

}  // namespace

void AddTokenize(CLI::App* app, const Global* global) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app->add_subcommand("tokenize", "Show a text or a conversation as a model's tokens");
  command->add_option("-m,--model", options->model, "model; empty: the only one");
  CLI::Option* text = command->add_option("text", options->text, "the text");
  CLI::Option* file =
      command->add_option("-f,--file", options->file, "file with the text; -: standard input")
          ->excludes(text);
  command
      ->add_option("--messages", options->messages,
                   "file with a JSON array of messages, or with an object that has \"messages\" and"
                   " \"tools\"; -: standard input")
      ->excludes(text)
      ->excludes(file);
  command->add_flag("--parse-special", options->parse_special,
                    "special tokens that the text spells out become their ids");
  command->add_flag("--no-special", options->no_special,
                    "leave out the tokens that begin the first text of a session");
  command->add_flag("-c,--count", options->count, "print only the number of tokens");
  command->footer(
      "Examples:\n"
      "  longstream tokenize -m hypenet 'def main():'\n"
      "  longstream tokenize -m qwen --count --messages conversation.json");
  command->callback([=] {
    if (options->messages.empty() && options->file.empty() && text->count() == 0) {
      throw CLI::ValidationError("text", "give a text, --file or --messages");
    }
    Tokenize(*global, *options);
  });
}

}  // namespace longstream::client
