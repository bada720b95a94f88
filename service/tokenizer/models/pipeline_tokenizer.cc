// Makes a tokenizer from its stages, and passes texts through them.
#include "service/tokenizer/models/pipeline_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/spec/spec_fingerprint.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

// ICU counts lengths in 32 bits, and normalization may make a text three times as long.
constexpr size_t kMaxTextBytes = size_t{512} << 20;

// Returns the added tokens. The content of tokens with `normalized` set is replaced by its
// normalized form.
absl::StatusOr<std::vector<AddedToken>> Normalized(std::vector<AddedToken> tokens,
                                                   const Normalizer& normalizer) {
  for (AddedToken& token : tokens) {
    if (!token.normalized) continue;
    std::string buffer;
    const absl::StatusOr<std::string_view> content =
        normalizer.Run(token.content, TextPlace::kSequenceBegin, &buffer);
    if (!content.ok()) return content.status();
    if (content->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens: expected text that the normalizer keeps, found \"",
                       token.content, "\", which it removes"));
    }
    token.content = std::string(*content);
  }
  return tokens;
}

// Makes a matcher of the added tokens that are looked for in the normalized text, or of those that
// are looked for before normalization.
absl::StatusOr<AddedTokenMatcher> MakeMatcher(const std::vector<AddedToken>& tokens,
                                              bool normalized) {
  std::vector<AddedToken> group;
  absl::flat_hash_map<std::string, int32_t> ids;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    const auto [other, is_new] = ids.emplace(token.content, token.id);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens: expected each text once, found \"", token.content,
                       "\" for ids ", other->second, " and ", token.id));
    }
    group.push_back(token);
  }
  return AddedTokenMatcher(std::move(group));
}

absl::StatusOr<std::optional<int32_t>> FindToken(const TokenizerSpec& spec, std::string_view key,
                                                 const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.content == *name) return token.id;
  }
  for (const auto* list : {&spec.vocabulary, &spec.reserved}) {
    for (const auto& [text, id] : *list) {
      if (text == *name) return id;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("expected the ", std::string(key),
                                                 " of tokenizer_config.json, \"", *name,
                                                 "\", among the tokens, but it is not there"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> PipelineTokenizer::Create(const TokenizerSpec& spec,
                                                                     const SpecialTokenNames& names,
                                                                     int vocab_size) {
  TokenizerInfo info;
  info.vocab_size = vocab_size;
  info.fingerprint = FingerprintOf(spec);
  info.sequence_prefix = spec.sequence_prefix;
  const auto bos = FindToken(spec, "bos_token", names.bos);
  if (!bos.ok()) return bos.status();
  info.bos_id = *bos;
  const auto eos = FindToken(spec, "eos_token", names.eos);
  if (!eos.ok()) return eos.status();
  info.eos_id = *eos;

  std::vector<AddedToken> normalized;
  absl::StatusOr<Stages> stages = MakeStages(spec, &normalized);
  if (!stages.ok()) return stages.status();
  absl::StatusOr<TokenTable> tokens = TokenTable::Create(spec, normalized);
  if (!tokens.ok()) return tokens.status();
  return std::unique_ptr<Tokenizer>(
      new PipelineTokenizer(std::move(info), *std::move(stages), *std::move(tokens), spec));
}

absl::StatusOr<PipelineTokenizer::Stages> PipelineTokenizer::MakeStages(
    const TokenizerSpec& spec, std::vector<AddedToken>* normalized_tokens) {
  absl::StatusOr<Normalizer> normalizer = Normalizer::Create(spec);
  if (!normalizer.ok()) return normalizer.status();
  absl::StatusOr<std::vector<AddedToken>> tokens = Normalized(spec.added_tokens, *normalizer);
  if (!tokens.ok()) return tokens.status();
  absl::StatusOr<AddedTokenMatcher> raw = MakeMatcher(*tokens, false);
  if (!raw.ok()) return raw.status();
  absl::StatusOr<AddedTokenMatcher> normalized = MakeMatcher(*tokens, true);
  if (!normalized.ok()) return normalized.status();
  absl::StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(spec.pre_tokenizer);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  *normalized_tokens = *std::move(tokens);
  const auto with = [&](auto model) -> absl::StatusOr<Stages> {
    if (!model.ok()) return model.status();
    return Stages{*std::move(raw), *std::move(normalizer), *std::move(normalized),
                  *std::move(pre_tokenizer), *std::move(model)};
  };
  if (spec.model == TokenizerSpec::Model::kUnigram) return with(UnigramModel::Create(spec));
  return with(BpeModel::Create(spec));
}

PipelineTokenizer::PipelineTokenizer(TokenizerInfo info, Stages stages, TokenTable tokens,
                                     const TokenizerSpec& spec)
    : Tokenizer(std::move(info)),
      stages_(std::move(stages)),
      tokens_(std::move(tokens)),
      decode_rules_{spec.decoder.strip_spaces, spec.decoder.byte_fallback
                                                   ? InvalidUtf8::kReplacementPerByte
                                                   : InvalidUtf8::kOneReplacement},
      prefix_(PrefixOf(spec)) {}

PrependScheme PipelineTokenizer::PrefixOf(const TokenizerSpec& spec) {
  PrependScheme prefix = PrependScheme::kNever;
  const auto add = [&prefix](PrependScheme scheme) {
    if (scheme != PrependScheme::kNever && prefix != PrependScheme::kAlways) prefix = scheme;
  };
  for (const NormalizerStep& step : spec.normalizer) {
    if (step.kind == NormalizerStep::Kind::kPrepend) add(step.scheme);
  }
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    using Kind = PreTokenizerStep::Kind;
    if (step.kind == Kind::kPrefixSpace || step.kind == Kind::kMetaspace) add(step.scheme);
  }
  return prefix;
}

std::string_view PipelineTokenizer::kind() const {
  return std::holds_alternative<UnigramModel>(stages_.model) ? "unigram" : "bpe";
}

bool PipelineTokenizer::ContinuesAfter(int32_t id) const {
  switch (prefix_) {
    case PrependScheme::kFirst:
      return true;
    case PrependScheme::kAlways:
      return !tokens_.IsAdded(id);
    case PrependScheme::kNever:
      return false;
  }
  return false;
}

absl::StatusOr<std::vector<int32_t>> PipelineTokenizer::EncodeText(std::string_view text,
                                                                   EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a text of at most ", kMaxTextBytes, " bytes, found ", text.size()));
  }
  if (const size_t valid = ValidUtf8Prefix(text); valid != text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected UTF-8 text, found invalid UTF-8 at byte ", valid));
  }
  std::vector<int32_t> ids;
  Workspace workspace;
  TextPlace place = options.continues ? TextPlace::kContinues : TextPlace::kSequenceBegin;
  for (const auto& segment :
       stages_.raw_tokens.Split(text, options.parse_special, options.foreign)) {
    if (segment.id) {
      ids.push_back(*segment.id);
    } else {
      // Normalization moves bytes. So if any byte of a segment is foreign, treat the whole segment
      // as foreign.
      const auto begin = static_cast<size_t>(segment.text.data() - text.data());
      const bool parse_special =
          options.parse_special && !AnyWithin(options.foreign, begin, begin + segment.text.size());
      absl::Status status = EncodeSegment(segment.text, place, parse_special, &workspace, &ids);
      if (!status.ok()) return status;
    }
    place = TextPlace::kNewPiece;
  }
  return ids;
}

// Encodes a text between two added tokens that were found before normalization.
absl::Status PipelineTokenizer::EncodeSegment(std::string_view text, TextPlace place,
                                              bool parse_special, Workspace* workspace,
                                              std::vector<int32_t>* ids) const {
  std::string buffer;
  bool cut_begin = false;
  const absl::StatusOr<std::string_view> normalized =
      stages_.normalizer.Run(text, place, &buffer, &cut_begin);
  if (!normalized.ok()) return normalized.status();
  // For the library `tokenizers`, a text without its first characters does not begin the sequence.
  if (cut_begin && place == TextPlace::kSequenceBegin) place = TextPlace::kNewPiece;
  for (const auto& segment : stages_.normalized_tokens.Split(*normalized, parse_special)) {
    if (segment.id) {
      ids->push_back(*segment.id);
    } else {
      absl::Status status = stages_.pre_tokenizer.Split(
          segment.text, place, [&](std::string_view word) { EncodeWord(word, workspace, ids); });
      if (!status.ok()) return status;
    }
    place = TextPlace::kNewPiece;
  }
  return absl::OkStatus();
}

void PipelineTokenizer::EncodeWord(std::string_view word, Workspace* workspace,
                                   std::vector<int32_t>* ids) const {
  if (const auto* bpe = std::get_if<BpeModel>(&stages_.model)) {
    bpe->Encode(word, &workspace->bpe, ids);
  } else {
    std::get<UnigramModel>(stages_.model).Encode(word, &workspace->unigram, ids);
  }
}

}  // namespace longstream
