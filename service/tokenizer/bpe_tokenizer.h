// The tokenizer that a tokenizer.json describes: added tokens, normalizer, pre-tokenizer, merges.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_BPE_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_BPE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/added_token_matcher.h"
#include "service/tokenizer/bpe_model.h"
#include "service/tokenizer/pre_tokenizer.h"
#include "service/tokenizer/tokenizer.h"
#include "service/tokenizer/tokenizer_json.h"

namespace longstream {

// Names of the special tokens in tokenizer_config.json.
struct SpecialTokenNames {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

class BpeTokenizer : public Tokenizer {
 public:
  // Errors as Tokenizer::Load, without the name of the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec,
                                                           const SpecialTokenNames& names,
                                                           int vocab_size);

  std::string_view kind() const override { return "bpe"; }
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;

 private:
  struct Token {
    std::string bytes;
    bool special = false;
  };

  // What texts become tokens by, in the order in which they are applied.
  struct Stages {
    AddedTokenMatcher raw_tokens;  // looked for in the text as it is
    bool nfc;
    AddedTokenMatcher normalized_tokens;  // looked for in the normalized text
    PreTokenizer pre_tokenizer;
    BpeModel model;
  };

  BpeTokenizer(TokenizerInfo info, Stages stages, std::vector<Token> tokens);

  static absl::StatusOr<std::vector<Token>> ListTokens(const TokenizerSpec& spec);
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view text,
                                                  EncodeOptions options) const override;
  absl::Status EncodeSegment(std::string_view text, EncodeOptions options,
                             BpeModel::Workspace* workspace, std::vector<int32_t>* ids) const;

  const Stages stages_;
  const std::vector<Token> tokens_;  // by id; shorter than the vocabulary where its end is unused
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_BPE_TOKENIZER_H_
