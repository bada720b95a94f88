// zstd, at its fastest ordinary level.
#include "service/sealing/block_compression.h"

#include <zstd.h>

#include <new>

namespace longstream {
namespace {

// Higher levels make caches hardly smaller (docs/snapshots.md).
constexpr int kLevel = 1;

std::optional<size_t> SizeOf(size_t result) {
  if (ZSTD_isError(result) != 0) return std::nullopt;
  return result;
}

}  // namespace

BlockCompressor::BlockCompressor() : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}
BlockCompressor::~BlockCompressor() { ZSTD_freeCCtx(context_); }

std::optional<size_t> BlockCompressor::Compress(std::string_view block, char* to, size_t to_size) {
  return SizeOf(ZSTD_compressCCtx(context_, to, to_size, block.data(), block.size(), kLevel));
}

BlockInflater::BlockInflater() : context_(ZSTD_createDCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}
BlockInflater::~BlockInflater() { ZSTD_freeDCtx(context_); }

std::optional<size_t> BlockInflater::Inflate(std::string_view block, char* to, size_t to_size) {
  return SizeOf(ZSTD_decompressDCtx(context_, to, to_size, block.data(), block.size()));
}

}  // namespace longstream
