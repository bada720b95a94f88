// Opens the bytes of a sealed file, block by block.
#ifndef LONGSTREAM_SERVICE_SEALING_UNSEALER_H_
#define LONGSTREAM_SERVICE_SEALING_UNSEALER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sealing/block_compression.h"
#include "service/sealing/sealed_block.h"
#include "service/sealing/sealing_keys.h"

namespace longstream {

// Trusts nothing: no byte of a block is used before its tag has been checked, and a block never
// inflates to more than kSealedBlockBytes. Not thread-safe.
class Unsealer {
 public:
  // Opens with any of the keys. `context` as in Sealer.
  Unsealer(std::shared_ptr<const SealingKeys> keys, std::string_view context);
  ~Unsealer();
  Unsealer(const Unsealer&) = delete;
  Unsealer& operator=(const Unsealer&) = delete;

  // Takes the next bytes of the sealed file, and holds them until Next has opened their blocks.
  void Add(std::string_view sealed);

  // The bytes of the next block, valid until the next call. Absent: further bytes are needed.
  // DATA_LOSS: the file was altered, or bytes follow its end; the message names the block.
  // FAILED_PRECONDITION: the key is not among the keys, or the file has another version. After an
  // error, nothing may be called.
  absl::StatusOr<std::optional<std::string_view>> Next();

  // OK: the last block has been opened. DATA_LOSS: the file is cut off.
  absl::Status Finish() const;

  // Bytes that wait for Next.
  size_t held() const { return buffer_.size() - begin_; }

 private:
  absl::Status ReadHeader();
  // The bytes of an opened block, inflated if it is compressed. Absent: it is wrong.
  std::optional<std::string_view> Inflate(std::string_view block);
  absl::Status Altered(std::string_view how) const;

  const std::shared_ptr<const SealingKeys> keys_;
  const std::string context_;
  std::optional<BlockCipher> cipher_;  // set when the header has been read
  std::unique_ptr<BlockInflater> inflater_;
  std::string buffer_;
  size_t begin_ = 0;   // the bytes before it are taken
  uint64_t next_ = 0;  // index of the block
  bool is_complete_ = false;
  std::string block_;
  std::string inflated_;
};

// The same for a file that is all there. Errors are those of Next and Finish.
absl::StatusOr<std::string> Unseal(const std::shared_ptr<const SealingKeys>& keys,
                                   std::string_view context, std::string_view sealed);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SEALING_UNSEALER_H_
