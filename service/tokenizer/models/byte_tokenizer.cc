// Implements the tokenizer of plain bytes.
#include "service/tokenizer/models/byte_tokenizer.h"

#include <cassert>

#include "service/tokenizer/spec/fingerprint.h"

namespace longstream {
namespace {

TokenizerInfo Info(int vocab_size) {
  Fingerprint fingerprint;
  fingerprint.AddText("byte");
  TokenizerInfo info;
  info.vocab_size = vocab_size;
  info.fingerprint = fingerprint.value();
  return info;
}

}  // namespace

ByteTokenizer::ByteTokenizer(int vocab_size) : Tokenizer(Info(vocab_size)) {
  assert(vocab_size >= 256);
  for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
}

std::string_view ByteTokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id > 255) return {};
  return {&bytes_[static_cast<size_t>(id)], 1};
}

absl::StatusOr<std::vector<int32_t>> ByteTokenizer::EncodeText(std::string_view text,
                                                               EncodeOptions) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace longstream
