#include "gateway/conversations/conversation_key.h"

#include <openssl/evp.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace longstream::gateway {

ConversationKey NextKey(const ConversationKey& before,
                        std::initializer_list<std::string_view> texts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(),
                                                                       &EVP_MD_CTX_free);
  bool ok = digest != nullptr && EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1 &&
            EVP_DigestUpdate(digest.get(), before.data(), before.size()) == 1;
  for (const std::string_view text : texts) {
    // The length says where the text ends.
    const uint64_t size = text.size();
    ok = ok && EVP_DigestUpdate(digest.get(), &size, sizeof(size)) == 1 &&
         EVP_DigestUpdate(digest.get(), text.data(), text.size()) == 1;
  }
  ConversationKey key{};
  ok = ok && EVP_DigestFinal_ex(digest.get(), key.data(), nullptr) == 1;
  if (!ok) throw std::runtime_error("OpenSSL computes no SHA-256");
  return key;
}

}  // namespace longstream::gateway
