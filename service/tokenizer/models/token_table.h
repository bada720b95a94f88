// The table of tokens by id: their bytes, and which of them are special.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_TOKEN_TABLE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_TOKEN_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Immutable after Create, so any number of threads may use it.
class TokenTable {
 public:
  // `normalized`: the added tokens of the spec, in the same order. Tokens that are looked for in
  // the normalized text have their normalized form here. INVALID_ARGUMENT: two tokens have the same
  // id, or two ids the same text.
  static absl::StatusOr<TokenTable> Create(const TokenizerSpec& spec,
                                           const std::vector<AddedToken>& normalized);

  // See Tokenizer::TokenBytes, FirstTokenBytes and IsSpecial.
  std::string_view Bytes(int32_t id) const;
  std::string_view FirstBytes(int32_t id) const;
  bool IsSpecial(int32_t id) const;

  // Whether the id is an added token (AddedToken).
  bool IsAdded(int32_t id) const;

 private:
  struct Token {
    std::string bytes;
    bool special = false;
    bool added = false;
  };

  const Token* Find(int32_t id) const;
  absl::StatusOr<bool> Add(const std::string& text, int32_t id);
  void SetPiece(const DecoderSpec& decoder, std::string_view text, int32_t id);

  std::vector<Token> tokens_;  // index: id; may be shorter than the vocabulary
  // Only of tokens for which they differ from Token::bytes.
  absl::flat_hash_map<int32_t, std::string> first_bytes_;
  absl::flat_hash_map<int32_t, std::string> texts_;  // used by Create only
  absl::flat_hash_map<std::string, int32_t> ids_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_TOKEN_TABLE_H_
