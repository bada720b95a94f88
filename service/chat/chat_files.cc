// Reads the files in the same order as Hugging Face's transformers.
#include "service/chat/chat_files.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/checkpoint/gguf/gguf_vocabulary.h"
#include "backends/errors/quote.h"
#include "service/jinja/values/json_reader.h"
#include "service/tokenizer/files/gguf.h"
#include "service/tokenizer/files/model_file.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 7> kSpecialTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// Reads the JSON object in a file. Returns an empty object if the file does not exist.
absl::StatusOr<Dict> ReadObject(const fs::path& path) {
  absl::StatusOr<std::optional<std::string>> json = FindModelFile(path);
  if (!json.ok()) return json.status();
  if (!json->has_value()) return Dict();
  absl::StatusOr<Value> value = ReadJson(**json, /*is_foreign=*/false);
  if (!value.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", value.status().message()));
  }
  if (!value->is_dict()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": not a JSON object"));
  }
  return value->dict();
}

absl::Status Add(std::string name, std::string file, std::string source, ChatTemplates* templates) {
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(std::move(file), std::move(source));
  if (!parsed.ok()) return parsed.status();
  templates->by_name.insert_or_assign(std::move(name), *std::move(parsed));
  return absl::OkStatus();
}

absl::Status AddFile(const std::string& name, const fs::path& path, ChatTemplates* templates) {
  absl::StatusOr<std::optional<std::string>> source = FindModelFile(path);
  if (!source.ok()) return source.status();
  if (!source->has_value()) return absl::OkStatus();
  return Add(name, path.filename(), **std::move(source), templates);
}

absl::Status AddFiles(const fs::path& model_dir, ChatTemplates* templates) {
  absl::Status status = AddFile("default", model_dir / "chat_template.jinja", templates);
  std::error_code error;
  for (fs::directory_iterator entry(model_dir / "chat_templates", error), end;
       !error && entry != end && status.ok(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".jinja") status = AddFile(path.stem(), path, templates);
  }
  return status;
}

// Adds the value of chat_template in tokenizer_config.json: a text, or a list [{"name": ...,
// "template": ...}, ...].
absl::Status AddFromConfig(const Value& entry, const std::string& file, ChatTemplates* templates) {
  if (entry.is_text()) {
    return Add("default", file + ": chat_template", entry.text().bytes(), templates);
  }
  const auto expected = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": chat_template: expected a string, or a list of objects with name and template"));
  };
  if (!entry.is_list()) return expected();
  for (const Value& item : entry.list().items) {
    const Value* name = item.is_dict() ? item.dict().Find("name") : nullptr;
    const Value* source = item.is_dict() ? item.dict().Find("template") : nullptr;
    if (name == nullptr || source == nullptr || !name->is_text() || !source->is_text()) {
      return expected();
    }
    absl::Status status =
        Add(name->text().bytes(), file + ": chat_template " + name->text().bytes(),
            source->text().bytes(), templates);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// A special token is a string, or an object whose key "content" holds the string.
void AddSpecialTokens(const Dict& config, Dict* tokens) {
  for (const char* name : kSpecialTokens) {
    const Value* token = config.Find(name);
    if (token != nullptr && token->is_dict()) token = token->dict().Find("content");
    if (token != nullptr && token->is_text()) tokens->Set(Text(name), *token);
  }
}

// Adds the texts of special tokens.
absl::Status AddGgufTokens(const GgufModel& model, Dict* tokens) {
  GgufVocabulary vocabulary;
  absl::Status status = CatchBackendError([&] { vocabulary = ReadGgufVocabulary(model); });
  if (!status.ok()) return status;
  const auto add = [&](const char* name, std::optional<int64_t> id) {
    if (!id) return;
    const std::string_view text = vocabulary.tokens[*id];
    if (ValidUtf8Prefix(text) == text.size()) {
      tokens->Set(Text(name), Value::MakeText(std::string(text)));
    }
  };
  add("bos_token", vocabulary.bos);
  add("eos_token", vocabulary.eos);
  add("unk_token", vocabulary.unknown);
  add("pad_token", vocabulary.padding);
  return absl::OkStatus();
}

// tokenizer.chat_template is the default; the template NAME is tokenizer.chat_template.NAME.
absl::StatusOr<ChatTemplates> ReadGguf(const GgufModel& model) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  ChatTemplates templates;
  absl::Status status = AddGgufTokens(model, &templates.special_tokens);
  const auto& metadata = model.metadata();
  for (auto it = metadata.lower_bound(kKey); it != metadata.end() && status.ok(); ++it) {
    if (!it->first.starts_with(kKey)) break;
    std::string name = it->first.substr(kKey.size());
    if (!name.empty() && name.front() != '.') continue;  // tokenizer.chat_templates lists names
    const std::optional<std::string_view> source = it->second.String();
    if (!source) {
      return absl::InvalidArgumentError(
          absl::StrCat(model.path(), ": ", Shortened(it->first), ": expected a string"));
    }
    name = name.empty() ? "default" : name.substr(1);
    status = Add(std::move(name),
                 absl::StrCat(fs::path(model.path()).filename().string(), ": ", it->first),
                 std::string(*source), &templates);
  }
  if (!status.ok()) return status;
  return templates;
}

}  // namespace

absl::StatusOr<const ChatTemplate*> ChatTemplates::Choose(bool has_tools) const {
  auto found = has_tools ? by_name.find("tool_use") : by_name.end();
  if (found == by_name.end()) found = by_name.find("default");
  if (found != by_name.end()) return &found->second;
  std::string names;
  for (const auto& [name, chat_template] : by_name) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  return absl::FailedPreconditionError(
      empty() ? "the model has no chat template: there is neither a chat_template.jinja nor a "
                "chat_template in tokenizer_config.json, or in the metadata of the GGUF file"
              : absl::StrCat("the model has no chat template called default; available: ", names));
}

absl::StatusOr<ChatTemplates> ReadChatTemplates(const fs::path& model_dir) {
  const absl::StatusOr<std::optional<GgufModel>> gguf = FindGguf(model_dir);
  if (!gguf.ok()) return gguf.status();
  if (gguf->has_value()) return ReadGguf(**gguf);
  ChatTemplates templates;
  const fs::path config_path = model_dir / "tokenizer_config.json";
  const absl::StatusOr<Dict> config = ReadObject(config_path);
  if (!config.ok()) return config.status();
  const absl::StatusOr<Dict> tokens = ReadObject(model_dir / "special_tokens_map.json");
  if (!tokens.ok()) return tokens.status();
  AddSpecialTokens(*tokens, &templates.special_tokens);
  AddSpecialTokens(*config, &templates.special_tokens);
  if (absl::Status status = AddFiles(model_dir, &templates); !status.ok()) return status;
  const Value* entry = config->Find("chat_template");
  if (templates.empty() && entry != nullptr && !entry->is_none()) {
    absl::Status status = AddFromConfig(*entry, config_path.filename(), &templates);
    if (!status.ok()) return status;
  }
  return templates;
}

}  // namespace longstream::chat
