// OpenSSL draws, digests and compares.
#include "service/security/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace longstream {
namespace {

// Lets scanners for secrets recognise a token.
constexpr std::string_view kPrefix = "lst_";

std::string Hex(const unsigned char* bytes, size_t size) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), size));
}

}  // namespace

std::string NewToken() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return {};
  return std::string(kPrefix) + Hex(bytes.data(), bytes.size());
}

TokenDigest DigestOf(std::string_view token) {
  TokenDigest digest{};
  EVP_Digest(token.data(), token.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

bool AreEqual(const TokenDigest& one, const TokenDigest& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string ToHex(const TokenDigest& digest) { return Hex(digest.data(), digest.size()); }

std::optional<TokenDigest> DigestFromHex(std::string_view hex) {
  TokenDigest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (const char c : hex) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(absl::string_view(hex.data(), hex.size()));
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<unsigned char>(bytes[i]);
  return digest;
}

}  // namespace longstream
