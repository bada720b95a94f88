// Compresses and inflates single blocks, which know nothing of each other.
#ifndef LONGSTREAM_SERVICE_SEALING_BLOCK_COMPRESSION_H_
#define LONGSTREAM_SERVICE_SEALING_BLOCK_COMPRESSION_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace longstream {

// Not thread-safe.
class BlockCompressor {
 public:
  BlockCompressor();
  ~BlockCompressor();
  BlockCompressor(const BlockCompressor&) = delete;
  BlockCompressor& operator=(const BlockCompressor&) = delete;

  // Writes the compressed block to `to`, and returns its size. Absent: it takes more than
  // `to_size` bytes.
  std::optional<size_t> Compress(std::string_view block, char* to, size_t to_size);

 private:
  ZSTD_CCtx_s* const context_;
};

// Not thread-safe.
class BlockInflater {
 public:
  BlockInflater();
  ~BlockInflater();
  BlockInflater(const BlockInflater&) = delete;
  BlockInflater& operator=(const BlockInflater&) = delete;

  // Writes the inflated block to `to`, and returns its size. Absent: it takes more than `to_size`
  // bytes, or is no compressed block.
  std::optional<size_t> Inflate(std::string_view block, char* to, size_t to_size);

 private:
  ZSTD_DCtx_s* const context_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SEALING_BLOCK_COMPRESSION_H_
