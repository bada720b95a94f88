// Encodes whole texts and decodes whole sequences of tokens.
#include "service/tokenizer/tokenizer.h"

#include "service/tokenizer/text_decoder.h"

namespace longstream {

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeAfter(std::optional<int32_t> last,
                                                            std::string_view text,
                                                            EncodeOptions options) const {
  options.continues = last.has_value() && ContinuesAfter(*last);
  absl::StatusOr<std::vector<int32_t>> ids = Encode(text, options);
  if (!ids.ok() || last.has_value() || ids->empty()) return ids;
  ids->insert(ids->begin(), sequence_prefix().begin(), sequence_prefix().end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  TextDecoder decoder(*this, options);
  std::string text;
  for (const int32_t id : ids) decoder.Push(id, &text);
  decoder.Finish(&text);
  return text;
}

}  // namespace longstream
