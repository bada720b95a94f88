// Chooses the tokenizer of a model directory.
#include "service/tokenizer/files/load_tokenizer.h"

#include <array>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/tokenizer/files/gguf.h"
#include "service/tokenizer/files/gguf_tokenizer.h"
#include "service/tokenizer/files/model_file.h"
#include "service/tokenizer/files/sentencepiece_model.h"
#include "service/tokenizer/files/tokenizer_config.h"
#include "service/tokenizer/files/tokenizer_json.h"
#include "service/tokenizer/models/byte_tokenizer.h"
#include "service/tokenizer/models/pipeline_tokenizer.h"

namespace longstream {
namespace {

// Refuses a directory whose only tokenizer file has a format that we do not read. Otherwise the
// tokenizer of plain bytes would be used, and its ids would mean other tokens to the model.
absl::Status CheckNoOtherTokenizer(const std::filesystem::path& model_dir) {
  static constexpr std::array kOthers = {"spiece.model", "vocab.json", "vocab.txt", "tekken.json",
                                         "tiktoken.model"};
  for (const char* name : kOthers) {
    if (!HasModelFile(model_dir / name)) continue;
    return absl::UnimplementedError(absl::StrCat((model_dir / name).string(),
                                                 " is not supported: expected a tokenizer.json or "
                                                 "tokenizer.model beside it, found neither"));
  }
  return absl::OkStatus();
}

// Makes the tokenizer that a file describes. Errors name the file.
absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const std::filesystem::path& path,
                                                  const TokenizerSpec& spec,
                                                  const SpecialTokenNames& names, int vocab_size) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      PipelineTokenizer::Create(spec, names, vocab_size);
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      absl::StrCat(path.string(), ": ", tokenizer.status().message()));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadJson(const std::filesystem::path& path,
                                                    int vocab_size) {
  const absl::StatusOr<TokenizerSpec> spec = ReadTokenizerJson(path, vocab_size);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<SpecialTokenNames> names = ReadSpecialTokenNames(path.parent_path());
  if (!names.ok()) return names.status();
  return Create(path, *spec, *names, vocab_size);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePiece(const std::filesystem::path& path,
                                                             int vocab_size) {
  absl::StatusOr<TokenizerConfig> config = ReadTokenizerConfig(path.parent_path(), vocab_size);
  if (!config.ok()) return config.status();
  const absl::StatusOr<TokenizerSpec> spec = ReadSentencePieceModel(path, vocab_size, &*config);
  if (!spec.ok()) return spec.status();
  return Create(path, *spec, config->names, vocab_size);
}

// Makes the tokenizer of plain bytes. `expected` is the description that the model lacks.
absl::StatusOr<std::unique_ptr<Tokenizer>> Bytes(const std::string& expected, int vocab_size) {
  if (vocab_size < 256) {
    return absl::InvalidArgumentError(
        absl::StrCat(expected, " does not exist, and plain bytes need a vocabulary of 256 or ",
                     "more: expected vocab_size >= 256, found ", vocab_size));
  }
  return std::make_unique<ByteTokenizer>(vocab_size);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGguf(const GgufModel& model, int vocab_size) {
  SpecialTokenNames names;
  const absl::StatusOr<std::optional<TokenizerSpec>> spec =
      ReadGgufTokenizer(model, vocab_size, &names);
  if (!spec.ok()) {
    const absl::string_view message = spec.status().message();
    const bool has_path = absl::StartsWith(message, model.path());
    return absl::Status(spec.status().code(), has_path ? std::string(message)
                                                       : absl::StrCat(model.path(), ": ", message));
  }
  if (spec->has_value()) return Create(model.path(), **spec, names, vocab_size);
  return Bytes(model.path() + ": tokenizer.ggml.model", vocab_size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::filesystem::path& model_dir,
                                                         int vocab_size) {
  const absl::StatusOr<std::optional<GgufModel>> gguf = FindGguf(model_dir);
  if (!gguf.ok()) return gguf.status();
  if (gguf->has_value()) return LoadGguf(**gguf, vocab_size);
  const std::filesystem::path json = model_dir / "tokenizer.json";
  if (HasModelFile(json)) return LoadJson(json, vocab_size);
  const std::filesystem::path model = model_dir / "tokenizer.model";
  if (HasModelFile(model)) return LoadSentencePiece(model, vocab_size);
  if (absl::Status status = CheckNoOtherTokenizer(model_dir); !status.ok()) return status;
  return Bytes(json.string(), vocab_size);
}

}  // namespace longstream
