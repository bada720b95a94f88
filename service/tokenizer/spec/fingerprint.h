// A 64-bit hash that is the same in every process and build (FNV-1a).
#ifndef LONGSTREAM_SERVICE_TOKENIZER_SPEC_FINGERPRINT_H_
#define LONGSTREAM_SERVICE_TOKENIZER_SPEC_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

namespace longstream {

class Fingerprint {
 public:
  void AddNumber(uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) AddByte(static_cast<unsigned char>(number >> (8 * byte)));
  }

  // Hashes the length too, so that ("a", "bc") and ("ab", "c") differ.
  void AddText(std::string_view text) {
    AddNumber(text.size());
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
  }

  uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }

  uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_SPEC_FINGERPRINT_H_
