// Byte-level BPE from its parts, and the table of its tokens.
#include "service/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/byte_alphabet.h"
#include "service/tokenizer/fingerprint.h"
#include "service/tokenizer/nfc.h"
#include "service/tokenizer/utf8.h"

namespace longstream {
namespace {

// Keeps every length within ICU's 32 bits, three times over for what normalization may add.
constexpr size_t kMaxTextBytes = size_t{512} << 20;

uint64_t FingerprintOf(const TokenizerSpec& spec) {
  Fingerprint fingerprint;
  fingerprint.AddText("bpe");
  fingerprint.AddNumber(spec.vocabulary.size());
  for (const auto& [text, id] : spec.vocabulary) {
    fingerprint.AddText(text);
    fingerprint.AddNumber(static_cast<uint64_t>(id));
  }
  fingerprint.AddNumber(spec.merges.size());
  for (const auto& [left, right] : spec.merges) {
    fingerprint.AddText(left);
    fingerprint.AddText(right);
  }
  fingerprint.AddNumber(spec.added_tokens.size());
  for (const AddedToken& token : spec.added_tokens) {
    fingerprint.AddText(token.content);
    fingerprint.AddNumber(static_cast<uint64_t>(token.id));
    for (const bool flag :
         {token.special, token.single_word, token.lstrip, token.rstrip, token.normalized}) {
      fingerprint.AddNumber(flag);
    }
  }
  fingerprint.AddNumber(spec.splits.size());
  for (const SplitRule& split : spec.splits) {
    fingerprint.AddText(split.pattern);
    fingerprint.AddNumber(split.literal);
    fingerprint.AddNumber(static_cast<uint64_t>(split.behavior));
    fingerprint.AddNumber(split.invert);
  }
  for (const bool flag : {spec.ignore_merges, spec.nfc, spec.add_prefix_space, spec.gpt2_split}) {
    fingerprint.AddNumber(flag);
  }
  return fingerprint.value();
}

// The matchers of the added tokens: those for the text as it is, those for the normalized text.
struct Matchers {
  AddedTokenMatcher raw;
  AddedTokenMatcher normalized;
};

absl::StatusOr<Matchers> MakeMatchers(const TokenizerSpec& spec) {
  struct Group {
    std::vector<AddedToken> tokens;
    absl::flat_hash_map<std::string, int32_t> ids;
  };
  Group raw;
  Group normalized;
  for (AddedToken token : spec.added_tokens) {
    if (token.normalized && spec.nfc) {
      std::string buffer;
      const absl::StatusOr<std::string_view> content = NormalizeNfc(token.content, &buffer);
      if (!content.ok()) return content.status();
      token.content = std::string(*content);
    }
    Group& group = token.normalized ? normalized : raw;
    const auto [other, is_new] = group.ids.emplace(token.content, token.id);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens: expected each text once, found \"", token.content,
                       "\" for ids ", other->second, " and ", token.id));
    }
    group.tokens.push_back(std::move(token));
  }
  return Matchers{AddedTokenMatcher(std::move(raw.tokens)),
                  AddedTokenMatcher(std::move(normalized.tokens))};
}

absl::StatusOr<std::optional<int32_t>> FindToken(const TokenizerSpec& spec, std::string_view key,
                                                 const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.content == *name) return token.id;
  }
  for (const auto& [text, id] : spec.vocabulary) {
    if (text == *name) return id;
  }
  return absl::InvalidArgumentError(absl::StrCat("expected the ", std::string(key),
                                                 " of tokenizer_config.json, \"", *name,
                                                 "\", among the tokens, found it nowhere"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Create(const TokenizerSpec& spec,
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

  absl::StatusOr<std::vector<Token>> tokens = ListTokens(spec);
  if (!tokens.ok()) return tokens.status();
  absl::StatusOr<Matchers> matchers = MakeMatchers(spec);
  if (!matchers.ok()) return matchers.status();
  absl::StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(spec);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  absl::StatusOr<BpeModel> model = BpeModel::Create(spec);
  if (!model.ok()) return model.status();
  Stages stages{std::move(matchers->raw), spec.nfc, std::move(matchers->normalized),
                *std::move(pre_tokenizer), *std::move(model)};
  return std::unique_ptr<Tokenizer>(
      new BpeTokenizer(std::move(info), std::move(stages), *std::move(tokens)));
}

BpeTokenizer::BpeTokenizer(TokenizerInfo info, Stages stages, std::vector<Token> tokens)
    : Tokenizer(std::move(info)), stages_(std::move(stages)), tokens_(std::move(tokens)) {}

// The tokens by id. A text of the vocabulary is written in the byte alphabet and gives the bytes it
// stands for, or its own where it is not. An added token is looked for in the text as it is, so it
// gives that text back, unless the vocabulary has it too.
absl::StatusOr<std::vector<BpeTokenizer::Token>> BpeTokenizer::ListTokens(
    const TokenizerSpec& spec) {
  std::vector<Token> tokens;
  absl::flat_hash_map<int32_t, std::string> texts;
  absl::flat_hash_map<std::string, int32_t> ids;
  // Whether the token is new; an error where the id or the text stands for something else already.
  const auto add = [&](const std::string& text, int32_t id) -> absl::StatusOr<bool> {
    const auto [known_text, is_new_id] = texts.emplace(id, text);
    const auto [known_id, is_new_text] = ids.emplace(text, id);
    if (known_text->second != text) {
      return absl::InvalidArgumentError(absl::StrCat("expected one token for id ", id, ", found \"",
                                                     known_text->second, "\" and \"", text, "\""));
    }
    if (known_id->second != id) {
      return absl::InvalidArgumentError(absl::StrCat("expected one id for the token \"", text,
                                                     "\", found ", known_id->second, " and ", id));
    }
    const auto size = static_cast<size_t>(id) + 1;
    if (tokens.size() < size) tokens.resize(size);
    return is_new_id;
  };
  for (const auto& [text, id] : spec.vocabulary) {
    if (const auto is_new = add(text, id); !is_new.ok()) return is_new.status();
    tokens[static_cast<size_t>(id)].bytes = AlphabetToBytes(text).value_or(text);
  }
  for (const AddedToken& added : spec.added_tokens) {
    const auto is_new = add(added.content, added.id);
    if (!is_new.ok()) return is_new.status();
    Token& token = tokens[static_cast<size_t>(added.id)];
    if (*is_new) token.bytes = added.content;
    token.special = added.special;
  }
  return tokens;
}

std::string_view BpeTokenizer::TokenBytes(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  if (index >= tokens_.size()) return {};
  return tokens_[index].bytes;
}

bool BpeTokenizer::IsSpecial(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  return index < tokens_.size() && tokens_[index].special;
}

absl::StatusOr<std::vector<int32_t>> BpeTokenizer::EncodeText(std::string_view text,
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
  BpeModel::Workspace workspace;
  for (const auto& segment : stages_.raw_tokens.Split(text, options.parse_special)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    absl::Status status = EncodeSegment(segment.text, options, &workspace, &ids);
    if (!status.ok()) return status;
  }
  return ids;
}

// A text between the added tokens that are looked for before normalization.
absl::Status BpeTokenizer::EncodeSegment(std::string_view text, EncodeOptions options,
                                         BpeModel::Workspace* workspace,
                                         std::vector<int32_t>* ids) const {
  std::string buffer;
  if (stages_.nfc) {
    const absl::StatusOr<std::string_view> normalized = NormalizeNfc(text, &buffer);
    if (!normalized.ok()) return normalized.status();
    text = *normalized;
  }
  for (const auto& segment : stages_.normalized_tokens.Split(text, options.parse_special)) {
    if (segment.id) {
      ids->push_back(*segment.id);
      continue;
    }
    absl::Status status = stages_.pre_tokenizer.Split(
        segment.text, [&](std::string_view word) { stages_.model.Encode(word, workspace, ids); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace longstream
