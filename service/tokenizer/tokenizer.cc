// Chooses the tokenizer of a model directory.
#include "service/tokenizer/tokenizer.h"

#include <array>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/byte_tokenizer.h"
#include "service/tokenizer/pipeline_tokenizer.h"
#include "service/tokenizer/text_decoder.h"
#include "service/tokenizer/tokenizer_config.h"
#include "service/tokenizer/tokenizer_json.h"

namespace longstream {
namespace {

bool Exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Files of tokenizers that we do not read: with one of them but no tokenizer.json, plain bytes
// would be ids that mean something else to the model.
absl::Status CheckNoOtherTokenizer(const std::filesystem::path& model_dir) {
  static constexpr std::array kOthers = {"tokenizer.model", "spiece.model", "vocab.json",
                                         "vocab.txt",       "tekken.json",  "tiktoken.model"};
  for (const char* name : kOthers) {
    if (!Exists(model_dir / name)) continue;
    return absl::UnimplementedError(
        absl::StrCat((model_dir / name).string(),
                     " is not supported: expected a tokenizer.json beside it, found none"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::filesystem::path& model_dir,
                                                           int vocab_size) {
  const std::filesystem::path path = model_dir / "tokenizer.json";
  if (Exists(path)) {
    const absl::StatusOr<TokenizerSpec> spec = ReadTokenizerJson(path, vocab_size);
    if (!spec.ok()) return spec.status();
    const absl::StatusOr<TokenizerConfig> config =
        ReadTokenizerConfig(model_dir / "tokenizer_config.json");
    if (!config.ok()) return config.status();
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
        PipelineTokenizer::Create(*spec, config->names, vocab_size);
    if (tokenizer.ok()) return tokenizer;
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(path.string(), ": ", tokenizer.status().message()));
  }
  if (absl::Status status = CheckNoOtherTokenizer(model_dir); !status.ok()) return status;
  if (vocab_size < 256) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), " does not exist, and plain bytes need a vocabulary of 256 or ",
                     "more: expected vocab_size >= 256, found ", vocab_size));
  }
  return std::make_unique<ByteTokenizer>(vocab_size);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  TextDecoder decoder(*this, options);
  std::string text;
  for (const int32_t id : ids) decoder.Push(id, &text);
  decoder.Finish(&text);
  return text;
}

}  // namespace longstream
