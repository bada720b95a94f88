// Reads all files of a model directory except the weights.
#include "service/models/model_check.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "backends/api/config_json.h"
#include "nlohmann/json.hpp"
#include "service/chat/chat_files.h"
#include "service/tokenizer/files/gguf.h"
#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/files/model_file.h"

namespace longstream {
namespace {

using Json = nlohmann::json;

// The value of `key` in an object; null if there is none. Values are not copied, because a copy of
// a deep value would overflow the stack.
const Json& Member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// As a backend reads config.json: NaN and Infinity do not make it invalid.
Json ParseJson(const std::string& text) {
  return Json::parse(QuoteNonFinite(text), nullptr, /*allow_exceptions=*/false);
}

// The vocabulary size in config.json. Models of our own and of some families have none there; then
// every id counts as part of the vocabulary.
int32_t VocabularySize(const std::string& directory) {
  const absl::StatusOr<ModelJson> file = FindConfig(directory);
  const Json config = file.ok() && file->text ? ParseJson(*file->text) : Json();
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  for (const Json* object : {&config, &Member(config, "text_config")}) {
    const Json& size = Member(*object, "vocab_size");
    if (size.is_number_unsigned() && size.get<uint64_t>() <= kMost) return size.get<int32_t>();
  }
  return kMost;
}

absl::StatusOr<std::vector<std::string>> FittingPlugins(const ModelSource& source,
                                                        Plugins plugins) {
  std::vector<std::string> fitting;
  absl::Status why;
  for (const std::string& device : DevicesOf(source)) {
    const absl::StatusOr<std::shared_ptr<const Plugin>> plugin =
        ChoosePlugin(source, device, plugins);
    if (plugin.ok()) {
      fitting.push_back(absl::StrCat((*plugin)->name(), ".", (*plugin)->device()));
    } else {
      why = plugin.status();
    }
  }
  if (fitting.empty()) return why;
  return fitting;
}

// Adds one file of weights. NOT_FOUND: it is not there.
absl::Status AddWeights(const std::filesystem::path& file, ModelCheck* check) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat(file.string(), ": ", error.message()));
  }
  check->weights.push_back(file.filename().string());
  check->weight_bytes += bytes;
  return absl::OkStatus();
}

// Finds the files of the weights as a backend does: a single file goes before an index. Not every
// backend needs such files.
absl::Status FindWeights(const std::filesystem::path& directory, ModelCheck* check) {
  const absl::StatusOr<std::optional<GgufWeights>> gguf = FindGgufWeights(directory);
  if (!gguf.ok()) return gguf.status();
  if (gguf->has_value()) {
    for (const std::filesystem::path& file : (*gguf)->files) {
      if (absl::Status status = AddWeights(file, check); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const std::filesystem::path single = directory / "model.safetensors";
  std::error_code error;
  if (std::filesystem::exists(single, error)) return AddWeights(single, check);
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  const absl::StatusOr<std::optional<std::string>> text = FindModelFile(index);
  if (!text.ok()) return text.status();
  if (!text->has_value()) return absl::OkStatus();
  const Json json = Json::parse(**text, nullptr, /*allow_exceptions=*/false);
  const Json& map = Member(json, "weight_map");
  if (!map.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index.string(), ": expected an object with the object weight_map"));
  }
  std::set<std::string> names;
  for (const Json& name : map) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  const auto is_outside = [](const std::string& name) {
    return name == ".." || name.find('/') != std::string::npos;
  };
  if (const auto found = std::find_if(names.begin(), names.end(), is_outside);
      found != names.end()) {
    return absl::InvalidArgumentError(absl::StrCat(index.string(),
                                                   ": expected files of this directory, found '",
                                                   absl::Utf8SafeCHexEscape(*found), "'"));
  }
  for (const std::string& name : names) {
    if (absl::Status status = AddWeights(directory / name, check); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelCheck> CheckModel(const ModelSource& source, Plugins plugins) {
  ModelCheck check;
  absl::StatusOr<std::vector<std::string>> fitting = FittingPlugins(source, plugins);
  if (!fitting.ok()) return fitting.status();
  check.plugins = *std::move(fitting);
  if (absl::Status status = FindWeights(source.directory, &check); !status.ok()) return status;

  const int32_t vocabulary_size = VocabularySize(source.directory);
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      LoadTokenizer(source.directory, vocabulary_size);
  if (!tokenizer.ok()) return tokenizer.status();
  check.tokenizer = std::string((*tokenizer)->kind());
  const absl::StatusOr<GenerationDefaults> defaults = ReadGenerationDefaults(
      source.directory, static_cast<uint32_t>(vocabulary_size), (*tokenizer)->eos_id());
  if (!defaults.ok()) return defaults.status();
  const absl::StatusOr<chat::ChatTemplates> chat = chat::ReadChatTemplates(source.directory);
  check.chat = chat.ok() ? chat->Choose(/*has_tools=*/false).status() : chat.status();
  return check;
}

}  // namespace longstream
