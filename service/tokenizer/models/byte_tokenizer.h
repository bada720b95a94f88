// The tokenizer of plain bytes: token i < 256 is the byte i.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

class ByteTokenizer : public Tokenizer {
 public:
  // REQUIRES: vocab_size >= 256. The ids above 255 have no bytes.
  explicit ByteTokenizer(int vocab_size);

  std::string_view kind() const override { return "byte"; }
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t) const override { return false; }

 private:
  // Accepts any bytes, even if they are not UTF-8.
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view text,
                                                  EncodeOptions options) const override;

  std::array<char, 256> bytes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENIZER_H_
