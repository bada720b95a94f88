// Chooses a plugin for a checkpoint and opens the model.
#include "service/models/served_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "backends/api/config_json.h"
#include "nlohmann/json.hpp"
#include "service/clock/monotonic_time.h"
#include "service/models/plugin_choice.h"
#include "service/tokenizer/files/gguf.h"
#include "service/tokenizer/files/load_tokenizer.h"

namespace longstream {
namespace {

using Json = nlohmann::json;

absl::Status Named(const std::string& model, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("model ", model, ": ", status.message()));
}

// Names the key of the configuration in an error of a backend, which knows the ABI's name for it.
absl::Status WithKeys(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrReplaceAll(status.message(),
                                                         {{"cache_bytes_budget", "cache_bytes"}}));
}

// Opens the model on the first device that is present and has a plugin for the model. If that
// device lacks memory, returns the error and does not try the next device. The next device may be a
// hundred times slower, so the operator must decide.
absl::StatusOr<std::unique_ptr<BackendModel>> OpenBackend(const ModelSource& source,
                                                          Plugins plugins, const Host* host,
                                                          const HostBudget& budget) {
  BackendModel::Options options;
  options.directory = source.directory;
  options.options_json = source.options_json;
  options.cache_bytes_budget = source.cache_bytes_budget;
  options.max_batch_tokens = source.max_batch_tokens;
  options.max_batch_sequences = source.max_batch_sequences;
  absl::Status why;
  for (const std::string& device : DevicesOf(source)) {
    absl::StatusOr<std::shared_ptr<const Plugin>> plugin = ChoosePlugin(source, device, plugins);
    if (!plugin.ok()) {
      why = plugin.status();
      continue;
    }
    options.devices = {device};
    if (device == "cpu" && !budget.refusal.ok()) return budget.refusal;
    if (device == "cpu" && source.cache_bytes_budget == 0) {
      options.cache_bytes_budget = (*plugin)->Can(LS_CAP_SET_BUDGET) ? budget.most : budget.share;
    }
    absl::StatusOr<std::unique_ptr<BackendModel>> opened =
        BackendModel::Open(*std::move(plugin), options, host);
    if (opened.ok()) return opened;
    why = WithKeys(opened.status());
    if (!absl::IsNotFound(why) && !absl::IsUnavailable(why)) return why;
    host->Write(LogSeverity::kInfo,
                absl::StrCat("model ", source.name, ": not on ", device, ": ", why.message()));
  }
  return why;
}

absl::StatusOr<Json> ParseJson(const ModelJson& file) {
  if (!file.text) return Json::object();
  Json json = Json::parse(QuoteNonFinite(*file.text), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.name, ": expected a JSON object, found ",
                     json.is_discarded() ? "no valid JSON" : json.type_name()));
  }
  return json;
}

// Returns the text of a value for an error message. For a list or an object, which may be deep,
// names only its kind.
std::string Found(const Json& value) {
  return value.is_structured() ? absl::StrCat("an ", value.type_name()) : value.dump();
}

absl::StatusOr<std::vector<int32_t>> EndIds(const std::string& file, const Json& json,
                                            uint32_t vocabulary_size) {
  std::vector<int32_t> ids;
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return ids;
  const bool is_list = found->is_array();
  for (size_t i = 0; i < (is_list ? found->size() : 1); ++i) {
    const Json& id = is_list ? (*found)[i] : *found;
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() >= static_cast<int64_t>(vocabulary_size)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": eos_token_id: expected ids below the vocabulary size ",
                       vocabulary_size, ", found ", Found(id)));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// Reads keys of generation_config.json one by one. Skips keys that are absent or null. The first
// wrong value sets the status.
class DefaultsReader {
 public:
  DefaultsReader(const std::string& file, const Json& json) : file_(file), json_(json) {}

  const absl::Status& status() const { return status_; }

  std::optional<float> Float(const char* key, const char* expected, bool (*is_valid)(float)) {
    const Json& value = Find(key);
    if (value.is_null()) return std::nullopt;
    if (value.is_number() && is_valid(value.get<float>())) return value.get<float>();
    return Refuse<float>(key, expected, value);
  }

  std::optional<int32_t> Count(const char* key) {
    const Json& value = Find(key);
    if (value.is_null()) return std::nullopt;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= kMost) {
      return value.get<int32_t>();
    }
    return Refuse<int32_t>(key, "a whole number from 0 on", value);
  }

  std::optional<bool> Bool(const char* key) {
    const Json& value = Find(key);
    if (value.is_null()) return std::nullopt;
    if (value.is_boolean()) return value.get<bool>();
    return Refuse<bool>(key, "true or false", value);
  }

 private:
  // Returns null if the key is absent. No value is copied: a copy of a deep value would overflow
  // the stack.
  const Json& Find(const char* key) const {
    static const Json null;
    const auto found = json_.find(key);
    return found == json_.end() ? null : *found;
  }

  template <typename T>
  std::optional<T> Refuse(const char* key, const char* expected, const Json& found) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(file_, ": ", key, ": expected ", expected, ", found ", Found(found)));
    }
    return std::nullopt;
  }

  const std::string& file_;
  const Json& json_;
  absl::Status status_;
};

uint64_t MaxTextBytes(const Tokenizer& tokenizer, uint64_t context_limit) {
  uint64_t longest = 1;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max<uint64_t>(longest, tokenizer.TokenBytes(id).size());
  }
  // A normalizer turns at most three bytes into one byte: for example, three letters of a Hangul
  // syllable into the syllable, or a full-width letter into an ASCII letter. Only a text that
  // consists almost entirely of dropped spaces may be refused although it would fit.
  constexpr uint64_t kNormalised = 3;
  const uint64_t per_token = longest * (tokenizer.kind() == "byte" ? 1 : kNormalised);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return context_limit > kMost / per_token ? kMost : context_limit * per_token;
}

}  // namespace

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& directory,
                                                          uint32_t vocabulary_size,
                                                          std::optional<int32_t> eos_id) {
  const absl::StatusOr<ModelJson> generation_file = FindGenerationConfig(directory);
  if (!generation_file.ok()) return generation_file.status();
  const absl::StatusOr<ModelJson> config_file = FindConfig(directory);
  if (!config_file.ok()) return config_file.status();
  const absl::StatusOr<Json> generation = ParseJson(*generation_file);
  if (!generation.ok()) return generation.status();
  const absl::StatusOr<Json> config = ParseJson(*config_file);
  if (!config.ok()) return config.status();

  GenerationDefaults defaults;
  const bool states_end = generation->contains("eos_token_id");
  absl::StatusOr<std::vector<int32_t>> ids =
      states_end ? EndIds(generation_file->name, *generation, vocabulary_size)
                 : EndIds(config_file->name, *config, vocabulary_size);
  if (!ids.ok()) return ids.status();
  defaults.end_token_ids = *std::move(ids);
  const auto end_in_config = config->find("eos_token_id");
  const bool silent = !states_end && (end_in_config == config->end() || end_in_config->is_null());
  if (silent && eos_id) defaults.end_token_ids = {*eos_id};
  DefaultsReader reader(generation_file->name, *generation);
  defaults.temperature = reader.Float("temperature", "a number from 0 to 1000", [](float value) {
    return value >= 0.0f && value <= 1000.0f;
  });
  const std::optional<bool> sample = reader.Bool("do_sample");
  if (sample == false) defaults.temperature = 0.0f;
  if (sample == true && !defaults.temperature) defaults.temperature = 1.0f;
  defaults.top_k = reader.Count("top_k");
  defaults.top_p = reader.Float("top_p", "a number above 0 and at most 1",
                                [](float value) { return value > 0.0f && value <= 1.0f; });
  defaults.min_p = reader.Float("min_p", "a number from 0 to 1",
                                [](float value) { return value >= 0.0f && value <= 1.0f; });
  defaults.repetition_penalty =
      reader.Float("repetition_penalty", "a finite number above 0",
                   [](float value) { return value > 0.0f && std::isfinite(value); });
  if (!reader.status().ok()) return reader.status();
  return defaults;
}

absl::StatusOr<std::shared_ptr<ServedModel>> ServedModel::Load(
    const ModelSource& source, std::span<const std::shared_ptr<const Plugin>> plugins,
    const Host* host, const HostBudget& budget) {
  std::shared_ptr<ServedModel> model(new ServedModel(source));
  const MonotonicTime begin = MonotonicTime::Now();
  absl::StatusOr<std::unique_ptr<BackendModel>> backend =
      OpenBackend(source, plugins, host, budget);
  if (!backend.ok()) return Named(source.name, backend.status());
  model->backend_ = *std::move(backend);
  const MonotonicTime opened = MonotonicTime::Now();

  const uint32_t vocabulary_size = model->backend_->info().vocabulary_size;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      LoadTokenizer(source.directory, static_cast<int>(vocabulary_size));
  if (!tokenizer.ok()) return Named(source.name, tokenizer.status());
  model->tokenizer_ = *std::move(tokenizer);
  model->formats_ = std::make_unique<CompiledFormats>(*model->tokenizer_);
  model->max_text_bytes_ = MaxTextBytes(*model->tokenizer_, model->backend_->info().context_limit);
  model->load_times_ = {opened - begin, MonotonicTime::Now() - opened};

  absl::StatusOr<GenerationDefaults> defaults =
      ReadGenerationDefaults(source.directory, vocabulary_size, model->tokenizer_->eos_id());
  if (!defaults.ok()) return Named(source.name, defaults.status());
  model->defaults_ = *std::move(defaults);
  model->chat_ = chat::ReadChatTemplates(source.directory);
  if (!model->chat_.ok()) {
    host->Write(
        LogSeverity::kWarning,
        absl::StrCat("model ", source.name, ": no chat: ", model->chat_.status().message()));
  }
  return model;
}

}  // namespace longstream
