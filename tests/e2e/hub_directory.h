// Writes model directories in the form of the hub's cache. Each is made of a golden checkpoint and
// a tokenizer of its family.
#ifndef LONGSTREAM_TESTS_E2E_HUB_DIRECTORY_H_
#define LONGSTREAM_TESTS_E2E_HUB_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {

// The text side of a family's model directories: a tokenizer of tests/golden/tokenizer, a chat
// template of tests/golden/chat/templates, and the values of the files beside them.
struct Voice {
  enum class TemplateIn { kConfig, kNamedInConfig, kFile };

  std::string model_type = "";
  std::string tokenizer = "";
  std::string bos = "";            // bos_token of tokenizer_config.json; empty: null
  std::string eos = "";            // eos_token
  std::vector<int32_t> end_ids;    // eos_token_id of generation_config.json
  std::string chat_template = "";  // empty: the family has no template
  TemplateIn template_in = TemplateIn::kConfig;
  std::vector<int32_t> text_prefix = {};  // ids before the ids of a session's first text
  std::vector<int32_t> chat_prefix = {};  // ids at the beginning of a conversation
};

// The Voice of a family. Throws std::runtime_error for an unknown model_type: a new family needs an
// entry in the table of hub_directory.cc.
const Voice& VoiceOf(std::string_view model_type);

// A text, and its ids at the beginning of a session. The library from which the tokenizer comes
// computed these ids.
std::pair<std::string, std::vector<int32_t>> TextWithIds(const Voice& voice);

// The number of rows of the embedding and the head. As on the hub, it exceeds the number of tokens
// of each tokenizer.
inline constexpr int64_t kHubVocabulary = 1216;

// Writes a model into the empty directory `root` as the hub's cache stores it: blobs, and a
// snapshot whose files are links to the blobs. Returns the path of the snapshot. Config and weights
// come from a case of tests/golden. The vocabulary grows to kHubVocabulary tokens, and the
// additional rows of embedding and head are made from the case's own rows.
std::filesystem::path WriteHubDirectory(const std::filesystem::path& golden_case,
                                        const Voice& voice, const std::filesystem::path& root);

// The model_type in a case's config.json. If the case has a vision model, returns the model_type of
// its text model.
std::string ModelTypeOf(const std::filesystem::path& golden_case);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HUB_DIRECTORY_H_
