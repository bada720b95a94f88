// Writes model directories. A table describes the tokenizer and the chat template of each family.
#include "tests/e2e/hub_directory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/backends/checkpoint/wide_vocabulary.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using TemplateIn = Voice::TemplateIn;

const fs::path kGolden = fs::path(LONGSTREAM_SOURCE_DIR) / "tests" / "golden";

const std::vector<Voice> kVoices = {
    {.model_type = "afmoe",
     .tokenizer = "afmoe",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {506},
     .chat_template = "documents",
     .chat_prefix = {506}},
    {.model_type = "bloom",
     .tokenizer = "bloom",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {506}},
    {.model_type = "cohere",
     .tokenizer = "cohere2",
     .bos = "<|im_end|>",
     .eos = "<|im_end|>",
     .end_ids = {506},
     .chat_template = "schema",
     .template_in = TemplateIn::kNamedInConfig},
    {.model_type = "cohere2",
     .tokenizer = "cohere2",
     .bos = "",
     .eos = "<|im_end|>",
     .end_ids = {506},
     .chat_template = "schema",
     .template_in = TemplateIn::kFile},
    {.model_type = "exaone4",
     .tokenizer = "exaone4",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {506},
     .chat_template = "documents",
     .template_in = TemplateIn::kFile,
     .chat_prefix = {506}},
    {.model_type = "gemma",
     .tokenizer = "spm_gemma",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2},
     .chat_template = "parts",
     .text_prefix = {1},
     .chat_prefix = {1}},
    {.model_type = "gemma2",
     .tokenizer = "gemma",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2, 743},
     .chat_template = "parts",
     .chat_prefix = {1}},
    {.model_type = "gemma3_text",
     .tokenizer = "gemma",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2, 743},
     .chat_template = "parts",
     .chat_prefix = {1}},
    {.model_type = "glm",
     .tokenizer = "llama3",
     .bos = "",
     .eos = "<|eot_id|>",
     .end_ids = {1159, 1160},
     .chat_template = "turns",
     .text_prefix = {1158}},
    {.model_type = "granite",
     .tokenizer = "gpt2",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {956},
     .chat_template = "documents",
     .chat_prefix = {956}},
    {.model_type = "granitemoe",
     .tokenizer = "gpt2",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {956},
     .chat_template = "documents",
     .chat_prefix = {956}},
    {.model_type = "granitemoeshared",
     .tokenizer = "gpt2",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {956},
     .chat_template = "documents",
     .chat_prefix = {956}},
    {.model_type = "hwfa2", .tokenizer = "unigram", .bos = "<s>", .eos = "</s>", .end_ids = {2}},
    {.model_type = "hypenet",
     .tokenizer = "llama2",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2, 743},
     .text_prefix = {1}},
    {.model_type = "llama",
     .tokenizer = "llama3",
     .bos = "<|begin_of_text|>",
     .eos = "<|eot_id|>",
     .end_ids = {1159, 1160},
     .chat_template = "headers",
     .text_prefix = {1158},
     .chat_prefix = {1158}},
    {.model_type = "minicpm_sala",
     .tokenizer = "llama2",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2, 743},
     .text_prefix = {1}},
    {.model_type = "mistral",
     .tokenizer = "spm_mistral",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2},
     .chat_template = "blocks",
     .text_prefix = {1},
     .chat_prefix = {1, 710}},
    {.model_type = "mixtral",
     .tokenizer = "spm_mistral",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2},
     .chat_template = "blocks",
     .text_prefix = {1},
     .chat_prefix = {1, 710}},
    {.model_type = "mpt",
     .tokenizer = "mpt",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {506}},
    {.model_type = "olmo2",
     .tokenizer = "olmo3",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {506},
     .chat_template = "documents",
     .chat_prefix = {506}},
    {.model_type = "olmo3",
     .tokenizer = "olmo3",
     .bos = "",
     .eos = "<|endoftext|>",
     .end_ids = {506},
     .chat_template = "turns",
     .template_in = TemplateIn::kFile},
    {.model_type = "olmoe",
     .tokenizer = "olmo3",
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .end_ids = {506},
     .chat_template = "documents",
     .chat_prefix = {506}},
    {.model_type = "phi3",
     .tokenizer = "phi3",
     .bos = "<s>",
     .eos = "</s>",
     .end_ids = {2, 744},
     .chat_template = "roles",
     .chat_prefix = {743}},
    {.model_type = "qwen2",
     .tokenizer = "qwen3",
     .bos = "",
     .eos = "<|im_end|>",
     .end_ids = {958, 956},
     .chat_template = "turns",
     .chat_prefix = {957}},
    {.model_type = "qwen2_moe",
     .tokenizer = "qwen3",
     .bos = "",
     .eos = "<|im_end|>",
     .end_ids = {958, 956},
     .chat_template = "turns",
     .chat_prefix = {957}},
    {.model_type = "qwen3",
     .tokenizer = "qwen3",
     .bos = "",
     .eos = "<|im_end|>",
     .end_ids = {958, 956},
     .chat_template = "turns",
     .chat_prefix = {957}},
    {.model_type = "qwen3_moe",
     .tokenizer = "qwen3",
     .bos = "",
     .eos = "<|im_end|>",
     .end_ids = {958, 956},
     .chat_template = "turns",
     .chat_prefix = {957}},
    {.model_type = "smollm3",
     .tokenizer = "llama3",
     .bos = "",
     .eos = "<|eot_id|>",
     .end_ids = {1160},
     .chat_template = "turns",
     .template_in = TemplateIn::kFile,
     .text_prefix = {1158}},
};

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// The model directory that is being written.
class Snapshot {
 public:
  explicit Snapshot(const fs::path& root)
      : blobs_(root / "blobs"), path_(root / "snapshots" / "0") {
    fs::create_directories(blobs_);
    fs::create_directories(path_);
  }

  const fs::path& path() const { return path_; }

  void Write(const std::string& name, const std::string& content) const {
    const fs::path blob = blobs_ / name;
    if (!(std::ofstream(blob, std::ios::binary) << content).flush()) {
      throw std::runtime_error("cannot write " + blob.string());
    }
    fs::create_symlink(fs::path("..") / ".." / "blobs" / name, path_ / name);
  }

 private:
  const fs::path blobs_;
  const fs::path path_;
};

Json ConfigOf(const fs::path& golden_case) {
  return Json::parse(ReadFile(golden_case / "config.json"));
}

// The part of a config that describes the text model. If the checkpoint has a vision model too,
// that part is the object "text_config".
Json& TextOf(Json& config) {
  return config.contains("text_config") ? config["text_config"] : config;
}

// tokenizer_config.json with the keys that the files on the hub have.
Json TokenizerConfig(const Voice& voice, const std::string& chat_template) {
  Json config = Json::object();
  const fs::path own = kGolden / "tokenizer" / voice.tokenizer / "tokenizer_config.json";
  if (fs::exists(own)) config = Json::parse(ReadFile(own));
  config["bos_token"] = voice.bos.empty() ? Json() : Json(voice.bos);
  config["eos_token"] = {{"__type", "AddedToken"}, {"content", voice.eos}, {"lstrip", false}};
  config["unk_token"] = nullptr;
  config["clean_up_tokenization_spaces"] = false;
  config["additional_special_tokens"] = Json::array({voice.eos});
  config["extra_special_tokens"] = Json::object();
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (voice.template_in == TemplateIn::kConfig && !chat_template.empty()) {
    config["chat_template"] = chat_template;
  }
  if (voice.template_in == TemplateIn::kNamedInConfig) {
    config["chat_template"] = Json::array({{{"name", "default"}, {"template", chat_template}},
                                           {{"name", "rag"}, {"template", "{{ documents }}"}}});
  }
  return config;
}

// tokenizer.json with one more token, as in Gemma 3's file: a token that only the family's vision
// model uses.
std::string SharedTokenizer(const fs::path& path) {
  Json tokenizer = Json::parse(ReadFile(path));
  tokenizer["added_tokens"].push_back(
      {{"id", kHubVocabulary}, {"content", "<image_soft_token>"}, {"special", true}});
  return tokenizer.dump();
}

void WriteTokenizer(const Voice& voice, const Snapshot& snapshot) {
  const fs::path directory = kGolden / "tokenizer" / voice.tokenizer;
  const fs::path json = directory / "tokenizer.json";
  if (fs::exists(json)) snapshot.Write("tokenizer.json", SharedTokenizer(json));
  const fs::path model = directory / "tokenizer.model";
  if (fs::exists(model)) snapshot.Write("tokenizer.model", ReadFile(model));
  std::string chat_template;
  if (!voice.chat_template.empty()) {
    chat_template = ReadFile(kGolden / "chat" / "templates" / (voice.chat_template + ".jinja"));
  }
  if (voice.template_in == TemplateIn::kFile) {
    snapshot.Write("chat_template.jinja", chat_template);
  }
  // Most files on the hub have this number for model_max_length. It needs 100 bits, and in Python
  // it means "no limit".
  std::string config = TokenizerConfig(voice, chat_template).dump();
  config.insert(1, "\"model_max_length\": 1000000000000000019884624838656, ");
  snapshot.Write("tokenizer_config.json", config);
  snapshot.Write(
      "special_tokens_map.json",
      Json({{"eos_token", voice.eos}, {"additional_special_tokens", {voice.eos}}}).dump());
}

}  // namespace

const Voice& VoiceOf(std::string_view model_type) {
  for (const Voice& voice : kVoices) {
    if (voice.model_type == model_type) return voice;
  }
  throw std::runtime_error("nothing is said about how " + std::string(model_type) + " talks");
}

std::pair<std::string, std::vector<int32_t>> TextWithIds(const Voice& voice) {
  const Json cases =
      Json::parse(ReadFile(kGolden / "tokenizer" / voice.tokenizer / "cases.json"))["encode"];
  for (const Json& one : cases) {
    if (one[1].size() < 8) continue;
    std::vector<int32_t> ids = voice.text_prefix;
    for (const Json& id : one[1]) ids.push_back(id);
    return {one[0], ids};
  }
  throw std::runtime_error(voice.tokenizer + " has no text of eight tokens");
}

std::string ModelTypeOf(const fs::path& golden_case) {
  Json config = ConfigOf(golden_case);
  return TextOf(config)["model_type"];
}

fs::path WriteHubDirectory(const fs::path& golden_case, const Voice& voice, const fs::path& root) {
  const Snapshot snapshot(root);
  Json config = ConfigOf(golden_case);
  TextOf(config)["vocab_size"] = kHubVocabulary;
  snapshot.Write("config.json", config.dump());
  for (const auto& entry : fs::directory_iterator(golden_case)) {
    const std::string name = entry.path().filename();
    if (name == "golden.safetensors" || name == "config.json") continue;
    const bool has_tensors = entry.path().extension() == ".safetensors";
    snapshot.Write(name, has_tensors ? FileWithVocabulary(entry.path(), kHubVocabulary)
                                     : ReadFile(entry.path()));
  }
  WriteTokenizer(voice, snapshot);
  snapshot.Write("generation_config.json", Json({{"_from_model_config", true},
                                                 {"bos_token_id", 1},
                                                 {"do_sample", true},
                                                 {"eos_token_id", voice.end_ids},
                                                 {"pad_token_id", 0},
                                                 {"temperature", 0.5},
                                                 {"top_k", 20},
                                                 {"top_p", 0.75},
                                                 {"transformers_version", "4.46.0"}})
                                               .dump());
  for (const char* other : {"README.md", "LICENSE", ".gitattributes"}) snapshot.Write(other, "");
  return snapshot.path();
}

}  // namespace longstream
