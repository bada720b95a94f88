// Choosing a plugin for a checkpoint and opening it.
#include "service/registry/served_model.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

namespace longstream {
namespace {

using Json = nlohmann::json;

absl::Status Named(const std::string& model, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("model ", model, ": ", status.message()));
}

using Plugins = std::span<const std::shared_ptr<const Plugin>>;

// The devices to try, best first.
std::vector<std::string> DevicesOf(const ModelSource& source) {
  if (source.device == "auto") return {"cuda", "cpu"};
  return {source.device};
}

// The plugin that serves the checkpoint on `device` best, or why none does.
absl::StatusOr<std::shared_ptr<const Plugin>> Choose(const ModelSource& source,
                                                     const std::string& device, Plugins plugins) {
  std::shared_ptr<const Plugin> best;
  int32_t best_fit = 0;
  bool any_matches = false;
  std::vector<std::string> reasons;
  for (const std::shared_ptr<const Plugin>& plugin : plugins) {
    // "cuda:0" is served by the plugin for "cuda".
    if (plugin->device() != device.substr(0, device.find(':'))) continue;
    any_matches = true;
    if (!source.backend.empty()) {
      if (plugin->name() == source.backend) return plugin;
      reasons.push_back(plugin->name());
      continue;
    }
    std::array<char, 512> text{};
    int32_t fit = 0;
    const ls_code code =
        plugin->table().probe(source.directory.c_str(), &fit, ls_error{text.data(), text.size()});
    if (code != LS_OK) return StatusFromCode(code, text.data());
    if (fit == 0) reasons.push_back(absl::StrCat(plugin->name(), ": ", text.data()));
    if (fit > best_fit) {
      best = plugin;
      best_fit = fit;
    }
  }
  if (best != nullptr) return best;
  if (!any_matches) {
    return absl::NotFoundError(absl::StrCat("device: there is no plugin for ", source.device));
  }
  if (!source.backend.empty()) {
    return absl::NotFoundError(absl::StrCat("backend: no plugin '", source.backend, "' for device ",
                                            source.device,
                                            "; there are: ", absl::StrJoin(reasons, ", ")));
  }
  return absl::InvalidArgumentError(absl::StrCat("no plugin for device ", source.device, " serves ",
                                                 source.directory, " (",
                                                 absl::StrJoin(reasons, "; "), ")"));
}

// Opens the model on the first device that is there and has a plugin for it. That a device lacks
// memory for it is the operator's to decide about: the next one may be a hundred times slower.
absl::StatusOr<std::unique_ptr<BackendModel>> OpenBackend(const ModelSource& source,
                                                          Plugins plugins, const Host* host) {
  BackendModel::Options options;
  options.directory = source.directory;
  options.options_json = source.options_json;
  options.cache_bytes_budget = source.cache_bytes_budget;
  options.max_batch_tokens = source.max_batch_tokens;
  options.max_batch_sequences = source.max_batch_sequences;
  absl::Status why;
  for (const std::string& device : DevicesOf(source)) {
    absl::StatusOr<std::shared_ptr<const Plugin>> plugin = Choose(source, device, plugins);
    if (!plugin.ok()) {
      why = plugin.status();
      continue;
    }
    options.devices = {device};
    absl::StatusOr<std::unique_ptr<BackendModel>> opened =
        BackendModel::Open(*std::move(plugin), options, host);
    why = opened.status();
    if (!absl::IsNotFound(why) && !absl::IsUnavailable(why)) return opened;
  }
  return why;
}

absl::StatusOr<Json> ReadJson(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) return Json::object();
  // A directory opens and then throws on the first read.
  if (std::filesystem::is_directory(file)) {
    return absl::InvalidArgumentError(absl::StrCat(file.string(), ": a directory, not a file"));
  }
  Json json = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file.string(), ": not a JSON object"));
  }
  return json;
}

absl::StatusOr<std::vector<int32_t>> EndIds(const Json& json, uint32_t vocabulary_size) {
  std::vector<int32_t> ids;
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() >= static_cast<int64_t>(vocabulary_size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("eos_token_id: expected ids below the vocabulary size ", vocabulary_size,
                       ", found ", id.dump()));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

template <typename T>
std::optional<T> Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<T>();
}

}  // namespace

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& directory,
                                                          uint32_t vocabulary_size) {
  const std::filesystem::path root(directory);
  absl::StatusOr<Json> generation = ReadJson(root / "generation_config.json");
  if (!generation.ok()) return generation.status();
  absl::StatusOr<Json> config = ReadJson(root / "config.json");
  if (!config.ok()) return config.status();

  GenerationDefaults defaults;
  const Json& with_end = generation->contains("eos_token_id") ? *generation : *config;
  absl::StatusOr<std::vector<int32_t>> ids = EndIds(with_end, vocabulary_size);
  if (!ids.ok()) return ids.status();
  defaults.end_token_ids = *std::move(ids);
  defaults.temperature = Number<float>(*generation, "temperature");
  if (generation->value("do_sample", Json()) == Json(false)) defaults.temperature = 0.0f;
  defaults.top_k = Number<int32_t>(*generation, "top_k");
  defaults.top_p = Number<float>(*generation, "top_p");
  defaults.min_p = Number<float>(*generation, "min_p");
  defaults.repetition_penalty = Number<float>(*generation, "repetition_penalty");
  return defaults;
}

absl::StatusOr<std::shared_ptr<ServedModel>> ServedModel::Load(
    const ModelSource& source, std::span<const std::shared_ptr<const Plugin>> plugins,
    const Host* host) {
  std::shared_ptr<ServedModel> model(new ServedModel(source));
  const absl::Time begin = absl::Now();
  absl::StatusOr<std::unique_ptr<BackendModel>> backend = OpenBackend(source, plugins, host);
  if (!backend.ok()) return Named(source.name, backend.status());
  model->backend_ = *std::move(backend);
  const absl::Time opened = absl::Now();

  const uint32_t vocabulary_size = model->backend_->info().vocabulary_size;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Load(source.directory, static_cast<int>(vocabulary_size));
  if (!tokenizer.ok()) return Named(source.name, tokenizer.status());
  model->tokenizer_ = *std::move(tokenizer);
  model->load_times_ = {opened - begin, absl::Now() - opened};

  absl::StatusOr<GenerationDefaults> defaults =
      ReadGenerationDefaults(source.directory, vocabulary_size);
  if (!defaults.ok()) return Named(source.name, defaults.status());
  model->defaults_ = *std::move(defaults);
  return model;
}

}  // namespace longstream
