// XChaCha20-Poly1305 by libsodium.
#include "service/sealing/sealed_block.h"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kVersionOffset = kSealedMagic.size();
constexpr size_t kIdOffset = kVersionOffset + 4;
constexpr size_t kPrefixOffset = kIdOffset + kMaxKeyIdBytes;
constexpr size_t kPrefixBytes = kSealedHeaderBytes - kPrefixOffset;

static_assert(kBlockTagBytes == crypto_aead_xchacha20poly1305_ietf_ABYTES);
static_assert(kSealingKeyBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

using Nonce = std::array<unsigned char, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES>;
static_assert(sizeof(Nonce) == kPrefixBytes + 8);

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(char* text) { return reinterpret_cast<unsigned char*>(text); }

// Numbers are little-endian, whatever the processor.
void PutNumber(uint64_t number, size_t size, unsigned char* to) {
  for (size_t i = 0; i < size; ++i) to[i] = static_cast<unsigned char>(number >> (8 * i));
}

// The file's prefix, and the block's index with the highest bit set in the last block. No nonce
// repeats under one key, because the prefix is random and the indices of a file differ.
Nonce NonceOf(std::string_view header, BlockPlace place) {
  Nonce nonce;
  std::copy_n(Bytes(header) + kPrefixOffset, kPrefixBytes, nonce.begin());
  PutNumber(place.index | uint64_t{place.is_last} << 63, 8, nonce.data() + kPrefixBytes);
  return nonce;
}

}  // namespace

bool IsSealed(std::string_view bytes) { return bytes.starts_with(kSealedMagic); }

std::optional<std::string_view> SealedBy(std::string_view bytes) {
  if (!IsSealed(bytes) || bytes.size() < kSealedHeaderBytes) return std::nullopt;
  const std::string_view id = bytes.substr(kIdOffset, kMaxKeyIdBytes);
  return id.substr(0, id.find('\0'));
}

std::string NewSealedHeader(const SealingKey& key) {
  std::string header(kSealedHeaderBytes, '\0');
  std::copy(kSealedMagic.begin(), kSealedMagic.end(), header.begin());
  PutNumber(kVersion, 4, Bytes(header.data()) + kVersionOffset);
  std::copy(key.id.begin(), key.id.end(), header.begin() + kIdOffset);
  randombytes_buf(header.data() + kPrefixOffset, kPrefixBytes);
  return header;
}

absl::StatusOr<const SealingKey*> CheckSealedHeader(std::string_view header,
                                                    const SealingKeys& keys) {
  const std::optional<std::string_view> id = SealedBy(header);
  if (!id.has_value()) return absl::DataLossError("it does not begin as a sealed file");
  std::array<unsigned char, 4> version;
  PutNumber(kVersion, version.size(), version.data());
  if (!std::equal(version.begin(), version.end(), Bytes(header) + kVersionOffset)) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is sealed in another way than version ", kVersion));
  }
  const SealingKey* const key = keys.Find(*id);
  if (key != nullptr) return key;
  return absl::FailedPreconditionError(
      absl::StrCat("the key '", absl::Utf8SafeCHexEscape(std::string(*id)),
                   "' that sealed it is not among the keys of this server"));
}

BlockCipher::BlockCipher(const SealingKey* key, std::string_view header, std::string_view context)
    : key_(key), covered_(absl::StrCat(std::string(header), std::string(context))) {}

void BlockCipher::Seal(BlockPlace place, std::string_view block, std::string* sealed) const {
  const size_t size = block.size() + kBlockTagBytes;
  const size_t begin = sealed->size();
  sealed->resize(begin + kBlockSizeBytes + size);
  unsigned char* const to = Bytes(sealed->data()) + begin;
  PutNumber(size, kBlockSizeBytes, to);
  const Nonce nonce = NonceOf(covered_, place);
  crypto_aead_xchacha20poly1305_ietf_encrypt(to + kBlockSizeBytes, nullptr, Bytes(block),
                                             block.size(), Bytes(covered_), covered_.size(),
                                             nullptr, nonce.data(), key_->bytes.data());
}

bool BlockCipher::Open(BlockPlace place, std::string_view sealed, char* block) const {
  const Nonce nonce = NonceOf(covered_, place);
  return crypto_aead_xchacha20poly1305_ietf_decrypt(Bytes(block), nullptr, nullptr, Bytes(sealed),
                                                    sealed.size(), Bytes(covered_), covered_.size(),
                                                    nonce.data(), key_->bytes.data()) == 0;
}

}  // namespace longstream
