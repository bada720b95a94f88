// Model directories as the hub's cache has them, made of a golden checkpoint and a tokenizer of its
// family.
#ifndef LONGSTREAM_TESTS_E2E_HUB_DIRECTORY_H_
#define LONGSTREAM_TESTS_E2E_HUB_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {

// How the directories of a family talk: a tokenizer of tests/golden/tokenizer, a chat template of
// tests/golden/chat/templates, and what the files beside them say.
struct Voice {
  enum class TemplateIn { kConfig, kNamedInConfig, kFile };

  std::string model_type = "";
  std::string tokenizer = "";
  std::string bos = "";            // bos_token of tokenizer_config.json; empty: null
  std::string eos = "";            // eos_token
  std::vector<int32_t> end_ids;    // eos_token_id of generation_config.json
  std::string chat_template = "";  // empty: the family has none
  TemplateIn template_in = TemplateIn::kConfig;
  std::vector<int32_t> text_prefix = {};  // what the tokenizer puts before a session's first text
  std::vector<int32_t> chat_prefix = {};  // what a conversation begins with
};

// Of every family that is served. Throws std::runtime_error where there is none for a model_type:
// whoever adds a family says here how it talks.
const Voice& VoiceOf(std::string_view model_type);

// A text, and its ids as a session's first: by the library that the tokenizer is from.
std::pair<std::string, std::vector<int32_t>> TextWithIds(const Voice& voice);

// Rows of embedding and head: more than any of the tokenizers has tokens, as on the hub.
inline constexpr int64_t kHubVocabulary = 1216;

// Writes below `root`, which is empty, what the hub's cache has for a model: blobs, and a snapshot
// whose files are links to them, whose path is returned. The config and the weights are those of a
// case of tests/golden, with a vocabulary of kHubVocabulary: the rows beyond its own are made of
// those.
std::filesystem::path WriteHubDirectory(const std::filesystem::path& golden_case,
                                        const Voice& voice, const std::filesystem::path& root);

// model_type of a case's config.json; beside a vision model, that of its text.
std::string ModelTypeOf(const std::filesystem::path& golden_case);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HUB_DIRECTORY_H_
