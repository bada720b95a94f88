// Converts the texts of tokens to bytes as the decoder of the tokenizer says.
#include "service/tokenizer/models/token_table.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/tokenizer/models/byte_tokens.h"
#include "service/tokenizer/text/byte_alphabet.h"

namespace longstream {

// Adds a token. Returns whether it is new. It is an error if the id or the text belongs to another
// token.
absl::StatusOr<bool> TokenTable::Add(const std::string& text, int32_t id) {
  const auto [known_text, is_new_id] = texts_.emplace(id, text);
  const auto [known_id, is_new_text] = ids_.emplace(text, id);
  if (known_text->second != text) {
    return absl::InvalidArgumentError(absl::StrCat("expected one token for id ", id, ", found \"",
                                                   known_text->second, "\" and \"", text, "\""));
  }
  if (known_id->second != id) {
    return absl::InvalidArgumentError(absl::StrCat("expected one id for the token \"", text,
                                                   "\", found ", known_id->second, " and ", id));
  }
  const auto size = static_cast<size_t>(id) + 1;
  if (tokens_.size() < size) tokens_.resize(size);
  return is_new_id;
}

// Sets the bytes of a token in a vocabulary over characters.
void TokenTable::SetPiece(const DecoderSpec& decoder, std::string_view text, int32_t id) {
  std::string bytes(text);
  for (const auto& [pattern, replacement] : decoder.replacements) {
    bytes = absl::StrReplaceAll(bytes, {{pattern, replacement}});
  }
  if (decoder.byte_fallback) {
    if (const auto byte = ByteOfToken(bytes)) bytes.assign(1, static_cast<char>(*byte));
  }
  if (!decoder.first_drops.empty() && text.find(decoder.first_drops) != std::string_view::npos) {
    first_bytes_[id] = absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                                           {{decoder.first_drops, ""}});
  }
  tokens_[static_cast<size_t>(id)].bytes = std::move(bytes);
}

// If the decoder is byte-level, the texts of the vocabulary are written in the byte alphabet, and a
// token decodes to the bytes that its text stands for. A text with characters outside that alphabet
// decodes to its own bytes. An added token is looked for in plain text, so it decodes to its plain
// text, unless the vocabulary has it too.
absl::StatusOr<TokenTable> TokenTable::Create(const TokenizerSpec& spec,
                                              const std::vector<AddedToken>& normalized) {
  TokenTable table;
  const bool byte_level = spec.decoder.byte_level;
  for (const auto* list : {&spec.vocabulary, &spec.reserved}) {
    for (const auto& [text, id] : *list) {
      if (const auto is_new = table.Add(text, id); !is_new.ok()) return is_new.status();
      if (byte_level) {
        table.tokens_[static_cast<size_t>(id)].bytes = AlphabetToBytes(text).value_or(text);
      } else {
        table.SetPiece(spec.decoder, text, id);
      }
    }
  }
  for (size_t i = 0; i < spec.added_tokens.size(); ++i) {
    const AddedToken& added = spec.added_tokens[i];
    const auto is_new = table.Add(added.content, added.id);
    if (!is_new.ok()) return is_new.status();
    Token& token = table.tokens_[static_cast<size_t>(added.id)];
    if (!byte_level) {
      table.SetPiece(spec.decoder, normalized[i].content, added.id);
    } else if (*is_new) {
      token.bytes = added.content;
    }
    token.special = added.special;
    token.added = true;
  }
  table.texts_ = {};
  table.ids_ = {};
  return table;
}

const TokenTable::Token* TokenTable::Find(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  return index < tokens_.size() ? &tokens_[index] : nullptr;
}

std::string_view TokenTable::Bytes(int32_t id) const {
  const Token* token = Find(id);
  return token == nullptr ? std::string_view() : token->bytes;
}

std::string_view TokenTable::FirstBytes(int32_t id) const {
  const auto first = first_bytes_.find(id);
  return first == first_bytes_.end() ? Bytes(id) : first->second;
}

bool TokenTable::IsSpecial(int32_t id) const {
  const Token* token = Find(id);
  return token != nullptr && token->special;
}

bool TokenTable::IsAdded(int32_t id) const {
  const Token* token = Find(id);
  return token != nullptr && token->added;
}

}  // namespace longstream
