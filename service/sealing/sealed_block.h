// The parts of a sealed file: a header, then blocks (docs/security.md).
#ifndef LONGSTREAM_SERVICE_SEALING_SEALED_BLOCK_H_
#define LONGSTREAM_SERVICE_SEALING_SEALED_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sealing/sealing_keys.h"

namespace longstream {

// A sealed file begins with these bytes.
inline constexpr std::string_view kSealedMagic = "LNSGSEAL";

// magic, version, the id of the key with zeros behind it, a random prefix of all nonces
inline constexpr size_t kSealedHeaderBytes = 8 + 4 + kMaxKeyIdBytes + 16;

// Every block but the last has so many bytes before it is sealed; the last one has as many or
// fewer.
inline constexpr size_t kSealedBlockBytes = size_t{64} << 10;
// A sealed block has its size, then a byte that says whether it is compressed, and its bytes, both
// encrypted, and a tag.
inline constexpr size_t kBlockSizeBytes = 4;
inline constexpr size_t kBlockTagBytes = 16;
inline constexpr size_t kMaxSealedBlockBytes = 1 + kSealedBlockBytes + kBlockTagBytes;

// Whether a file that begins with `bytes` is sealed.
bool IsSealed(std::string_view bytes);

// The id of the key that sealed a file. Absent: the file is not sealed, or `bytes`, its first ones,
// do not have the whole header.
std::optional<std::string_view> SealedBy(std::string_view bytes);

// A header with a new random prefix.
std::string NewSealedHeader(const SealingKey& key);
// DATA_LOSS: `header` is none. FAILED_PRECONDITION: it has another version, or its key is not among
// the keys.
absl::StatusOr<const SealingKey*> CheckSealedHeader(std::string_view header,
                                                    const SealingKeys& keys);

// The place of a block. Together with the header and with what the file is, it decides the nonce
// and the data that the tag covers beside the block. So blocks cannot be moved within a file, or
// taken from another file, and a file cannot be cut off behind a block.
struct BlockPlace {
  uint64_t index = 0;
  bool is_last = false;
};

// Encrypts and decrypts the blocks of one file. Not thread-safe.
class BlockCipher {
 public:
  // `key` must outlive the cipher. `context` says what the file is; a file is only opened with the
  // context that it was sealed with.
  BlockCipher(const SealingKey* key, std::string_view header, std::string_view context);

  // Appends the sealed block, with its size, to *sealed.
  void Seal(BlockPlace place, std::string_view block, std::string* sealed) const;
  // Writes the opened block, which has kBlockTagBytes less than `sealed`, to `block`. False: it was
  // altered, or is not the block of this place. REQUIRES: `sealed` has kBlockTagBytes or more.
  bool Open(BlockPlace place, std::string_view sealed, char* block) const;

 private:
  const SealingKey* const key_;
  const std::string covered_;  // by every tag: the header and the context
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SEALING_SEALED_BLOCK_H_
