// Makes the description of a tokenizer from the metadata of a GGUF model.
#include "service/tokenizer/files/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/checkpoint/gguf/gguf_vocabulary.h"
#include "service/tokenizer/files/gguf.h"
#include "service/tokenizer/files/gguf_splits.h"
#include "service/tokenizer/files/piece_merges.h"
#include "service/tokenizer/models/byte_tokens.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using Kind = GgufTokenKind;

constexpr const char* kSpaceMark = "\u2581";  // SentencePiece's mark for a space
constexpr const char* kPrefix = "tokenizer.ggml.";
constexpr size_t kMaxPieceBytes = 1024;

absl::Status Invalid(const std::string& sentence) { return absl::InvalidArgumentError(sentence); }

// The value of a key that is true or false.
absl::StatusOr<bool> Flag(const GgufModel& model, const char* key, bool absent) {
  const GgufValue* const value = model.Find(absl::StrCat(kPrefix, key));
  if (value == nullptr) return absent;
  if (const std::optional<bool> flag = value->Bool()) return *flag;
  return Invalid(absl::StrCat(kPrefix, key, ": expected true or false, found ", value->Found()));
}

absl::StatusOr<std::string> Text(const GgufModel& model, const char* key, const char* absent) {
  const GgufValue* const value = model.Find(absl::StrCat(kPrefix, key));
  if (value == nullptr) return absent;
  if (const std::optional<std::string_view> text = value->String()) return std::string(*text);
  return Invalid(absl::StrCat(kPrefix, key, ": expected a string, found ", value->Found()));
}

absl::Status CheckTokens(const GgufVocabulary& vocabulary, int vocab_size) {
  if (vocabulary.tokens.size() > static_cast<size_t>(vocab_size)) {
    return Invalid(absl::StrCat(kPrefix, "tokens: expected at most ", vocab_size,
                                " tokens, the model's vocabulary, found ",
                                vocabulary.tokens.size()));
  }
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view text = vocabulary.tokens[id];
    if (ValidUtf8Prefix(text) == text.size()) continue;
    return Invalid(
        absl::StrCat(kPrefix, "tokens: expected UTF-8, found other bytes in token ", id));
  }
  return absl::OkStatus();
}

AddedToken Added(const GgufVocabulary& vocabulary, size_t id, bool special) {
  AddedToken token;
  token.id = static_cast<int32_t>(id);
  token.content = vocabulary.tokens[id];
  token.special = special;
  return token;
}

// Sorts the tokens of words by text.
void SortVocabulary(TokenizerSpec* spec) {
  std::sort(spec->vocabulary.begin(), spec->vocabulary.end());
}

void SetNames(const GgufVocabulary& vocabulary, bool add_bos, TokenizerSpec* spec,
              SpecialTokenNames* names) {
  if (vocabulary.bos) names->bos = std::string(vocabulary.tokens[*vocabulary.bos]);
  if (vocabulary.eos) names->eos = std::string(vocabulary.tokens[*vocabulary.eos]);
  if (add_bos && vocabulary.bos) {
    spec->sequence_prefix = {static_cast<int32_t>(*vocabulary.bos)};
  }
}

absl::Status ReadMerges(const GgufVocabulary& vocabulary, TokenizerSpec* spec) {
  if (vocabulary.merges.empty()) {
    return Invalid(absl::StrCat(kPrefix, "merges: expected a list of merges, found nothing"));
  }
  for (const std::string_view merge : vocabulary.merges) {
    // The parts are written in the byte alphabet, which has no space.
    const size_t space = merge.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == merge.size()) {
      return Invalid(absl::StrCat(kPrefix,
                                  "merges: expected two tokens with one space between, found \"",
                                  std::string(merge.substr(0, 100)), "\""));
    }
    spec->merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerSpec> ReadBytePairs(const GgufModel& model,
                                            const GgufVocabulary& vocabulary,
                                            SpecialTokenNames* names) {
  const absl::StatusOr<std::string> pre = Text(model, "pre", "default");
  if (!pre.ok()) return pre.status();
  const GgufSplit* const split = FindGgufSplit(*pre);
  if (split == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(kPrefix, "pre: expected one of ", GgufSplitNames(), ", found \"", *pre, "\""));
  }
  TokenizerSpec spec;
  spec.byte_level = spec.decoder.byte_level = true;
  spec.ignore_merges = split->ignore_merges;
  spec.pre_tokenizer = StepsOf(*split);
  if (split->nfc) spec.normalizer.emplace_back();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const Kind kind = vocabulary.kinds[id];
    if (vocabulary.tokens[id].empty() || kind == Kind::kUnused) continue;
    if (kind == Kind::kNormal || kind == Kind::kByte) {
      spec.vocabulary.emplace_back(vocabulary.tokens[id], static_cast<int32_t>(id));
    } else {
      spec.added_tokens.push_back(Added(vocabulary, id, kind != Kind::kUserDefined));
    }
  }
  SortVocabulary(&spec);
  if (absl::Status status = ReadMerges(vocabulary, &spec); !status.ok()) return status;
  const absl::StatusOr<bool> add_bos = Flag(model, "add_bos_token", split->add_bos);
  if (!add_bos.ok()) return add_bos.status();
  SetNames(vocabulary, *add_bos, &spec, names);
  return spec;
}

// Reads the tokens of SentencePiece's BPE, with their scores in the same order.
absl::Status ReadPieces(const GgufVocabulary& vocabulary, TokenizerSpec* spec) {
  if (vocabulary.scores.empty()) {
    return Invalid(absl::StrCat(kPrefix, "scores: expected a score for each token, found nothing"));
  }
  std::vector<std::pair<std::pair<std::string, int32_t>, double>> scored;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string text(vocabulary.tokens[id]);
    const Kind kind = vocabulary.kinds[id];
    if (text.empty() || kind == Kind::kUnused) continue;
    if (text.size() > kMaxPieceBytes || !std::isfinite(vocabulary.scores[id])) {
      return Invalid(absl::StrCat(kPrefix, "tokens: expected at most ", kMaxPieceBytes,
                                  " bytes and a finite score, found ", text.size(), " bytes and ",
                                  vocabulary.scores[id], " for token ", id));
    }
    if (kind == Kind::kNormal) {
      scored.push_back({{text, static_cast<int32_t>(id)}, vocabulary.scores[id]});
      continue;
    }
    if (kind == Kind::kByte && !ByteOfToken(text)) {
      return Invalid(absl::StrCat(kPrefix, "tokens: expected a byte such as <0x0A>, found \"", text,
                                  "\" for token ", id));
    }
    if (kind == Kind::kByte || kind == Kind::kUnknown) {
      spec->reserved.emplace_back(text, static_cast<int32_t>(id));
    }
    if (kind == Kind::kUnknown) spec->unk_id = static_cast<int32_t>(id);
    if (kind == Kind::kByte) {
      spec->byte_fallback = true;
    } else {
      spec->added_tokens.push_back(Added(vocabulary, id, kind != Kind::kUserDefined));
    }
  }
  std::sort(scored.begin(), scored.end());
  for (auto& [token, score] : scored) {
    spec->vocabulary.push_back(std::move(token));
    spec->scores.push_back(score);
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerSpec> ReadSentencePieces(const GgufModel& model,
                                                 const GgufVocabulary& vocabulary,
                                                 SpecialTokenNames* names) {
  TokenizerSpec spec;
  if (absl::Status status = ReadPieces(vocabulary, &spec); !status.ok()) return status;
  spec.fuse_unk = true;
  if (spec.byte_fallback) {
    const auto ids = ByteTokens(spec);
    const auto missing = std::find(ids.begin(), ids.end(), kNoId);
    if (missing != ids.end()) {
      return Invalid(absl::StrCat(kPrefix,
                                  "tokens: expected a token for each byte, found none for ",
                                  "byte ", missing - ids.begin()));
    }
  }
  if (absl::Status status = AddPieceMerges(&spec); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(kPrefix, "tokens: ", status.message()));
  }
  spec.scores.clear();
  const absl::StatusOr<bool> prefix = Flag(model, "add_space_prefix", true);
  if (!prefix.ok()) return prefix.status();
  const absl::StatusOr<bool> extra = Flag(model, "remove_extra_whitespaces", false);
  if (!extra.ok()) return extra.status();
  if (*extra)
    return absl::UnimplementedError(absl::StrCat(kPrefix, "remove_extra_whitespaces: true"));
  if (*prefix) {
    NormalizerStep& step = spec.normalizer.emplace_back();
    step.kind = NormalizerStep::Kind::kPrepend;
    step.text = kSpaceMark;
    step.scheme = PrependScheme::kAlways;
  }
  NormalizerStep& spaces = spec.normalizer.emplace_back();
  spaces.kind = NormalizerStep::Kind::kReplace;
  spaces.pattern = {" ", true};
  spaces.text = kSpaceMark;
  spec.decoder.replacements = {{kSpaceMark, " "}};
  spec.decoder.byte_fallback = spec.byte_fallback;
  spec.decoder.strip_spaces = *prefix ? 1 : 0;
  const absl::StatusOr<bool> add_bos = Flag(model, "add_bos_token", true);
  if (!add_bos.ok()) return add_bos.status();
  SetNames(vocabulary, *add_bos, &spec, names);
  return spec;
}

}  // namespace

absl::StatusOr<std::optional<TokenizerSpec>> ReadGgufTokenizer(const GgufModel& model,
                                                               int vocab_size,
                                                               SpecialTokenNames* names) {
  GgufVocabulary vocabulary;
  absl::Status status = CatchBackendError([&] { vocabulary = ReadGgufVocabulary(model); });
  if (!status.ok()) return status;
  if (vocabulary.model.empty()) return std::nullopt;
  if (status = CheckTokens(vocabulary, vocab_size); !status.ok()) return status;
  if (vocabulary.model != "gpt2" && vocabulary.model != "llama") {
    return absl::UnimplementedError(absl::StrCat(kPrefix, "model: expected gpt2 or llama, found \"",
                                                 std::string(vocabulary.model.substr(0, 100)),
                                                 "\""));
  }
  absl::StatusOr<TokenizerSpec> spec = vocabulary.model == "gpt2"
                                           ? ReadBytePairs(model, vocabulary, names)
                                           : ReadSentencePieces(model, vocabulary, names);
  if (!spec.ok()) return spec.status();
  return *std::move(spec);
}

}  // namespace longstream
