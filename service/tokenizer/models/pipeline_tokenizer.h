// The tokenizer that a TokenizerSpec describes. To encode, it uses added tokens, a normalizer, a
// pre-tokenizer and a model; to decode, a table of tokens.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_PIPELINE_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_PIPELINE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/models/bpe_model.h"
#include "service/tokenizer/models/token_table.h"
#include "service/tokenizer/models/unigram_model.h"
#include "service/tokenizer/spec/tokenizer_spec.h"
#include "service/tokenizer/text/added_token_matcher.h"
#include "service/tokenizer/text/normalizer.h"
#include "service/tokenizer/text/pre_tokenizer.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

class PipelineTokenizer : public Tokenizer {
 public:
  // Errors as for LoadTokenizer, but their messages do not name the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec,
                                                           const SpecialTokenNames& names,
                                                           int vocab_size);

  std::string_view kind() const override;
  std::string_view TokenBytes(int32_t id) const override { return tokens_.Bytes(id); }
  std::string_view FirstTokenBytes(int32_t id) const override { return tokens_.FirstBytes(id); }
  bool IsSpecial(int32_t id) const override { return tokens_.IsSpecial(id); }
  bool puts_space_first() const override { return prefix_ != PrependScheme::kNever; }
  bool ContinuesAfter(int32_t id) const override;
  DecodeRules decode_rules() const override { return decode_rules_; }

 private:
  // The stages of encoding, in the order in which they are applied.
  struct Stages {
    AddedTokenMatcher raw_tokens;  // looked for in the text before normalization
    Normalizer normalizer;
    AddedTokenMatcher normalized_tokens;  // looked for in the normalized text
    PreTokenizer pre_tokenizer;
    std::variant<BpeModel, UnigramModel> model;
  };
  struct Workspace {
    BpeModel::Workspace bpe;
    UnigramModel::Workspace unigram;
  };

  PipelineTokenizer(TokenizerInfo info, Stages stages, TokenTable tokens,
                    const TokenizerSpec& spec);

  static absl::StatusOr<Stages> MakeStages(const TokenizerSpec& spec,
                                           std::vector<AddedToken>* normalized_tokens);
  static PrependScheme PrefixOf(const TokenizerSpec& spec);
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view text,
                                                  EncodeOptions options) const override;
  absl::Status EncodeSegment(std::string_view text, TextPlace place, bool parse_special,
                             Workspace* workspace, std::vector<int32_t>* ids) const;
  void EncodeWord(std::string_view word, Workspace* workspace, std::vector<int32_t>* ids) const;

  const Stages stages_;
  const TokenTable tokens_;
  const DecodeRules decode_rules_;
  const PrependScheme prefix_;  // which texts get a space (or its mark) in front
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_PIPELINE_TOKENIZER_H_
