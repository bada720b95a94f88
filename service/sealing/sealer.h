// Seals the bytes of a file, block by block.
#ifndef LONGSTREAM_SERVICE_SEALING_SEALER_H_
#define LONGSTREAM_SERVICE_SEALING_SEALER_H_

#include <memory>
#include <string>
#include <string_view>

#include "service/sealing/block_compression.h"
#include "service/sealing/sealed_block.h"
#include "service/sealing/sealing_keys.h"

namespace longstream {

// Holds at most one block. Not thread-safe.
class Sealer {
 public:
  // Seals with the first key. `context` says what the file is (BlockCipher). REQUIRES:
  // `sealing.keys` is set.
  Sealer(const Sealing& sealing, std::string_view context);
  ~Sealer();
  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;

  // Takes the next bytes of the file. Appends to *sealed the header, in the first call, and the
  // blocks that are complete.
  void Add(std::string_view bytes, std::string* sealed);
  // Appends the rest. Nothing may be called after it.
  void Finish(std::string* sealed);

 private:
  void SealBlock(bool is_last, std::string* sealed);

  const std::shared_ptr<const SealingKeys> keys_;  // keeps the cipher's key
  const std::string header_;
  const BlockCipher cipher_;
  std::unique_ptr<BlockCompressor> compressor_;  // null: blocks are not compressed
  bool has_begun_ = false;
  uint64_t next_ = 0;  // index of the block
  std::string block_;  // a byte for the kind of the block, then its bytes
  std::string compressed_;
};

// The same for bytes that are all there.
std::string Seal(const Sealing& sealing, std::string_view context, std::string_view bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SEALING_SEALER_H_
