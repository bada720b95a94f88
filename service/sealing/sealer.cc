// A full block waits until a byte follows it, because the last block is sealed as the last one.
#include "service/sealing/sealer.h"

#include <algorithm>

#include "service/sealing/block_kind.h"

namespace longstream {

Sealer::Sealer(const Sealing& sealing, std::string_view context)
    : keys_(sealing.keys),
      header_(NewSealedHeader(keys_->first())),
      cipher_(&keys_->first(), header_, context),
      block_(1, kPlainBlock) {
  if (sealing.compression == Compression::kZstd) {
    compressor_ = std::make_unique<BlockCompressor>();
  }
}

Sealer::~Sealer() = default;

void Sealer::Add(std::string_view bytes, std::string* sealed) {
  if (!has_begun_) *sealed += header_;
  has_begun_ = true;
  while (!bytes.empty()) {
    if (block_.size() > kSealedBlockBytes) SealBlock(false, sealed);
    const size_t taken = std::min(bytes.size(), 1 + kSealedBlockBytes - block_.size());
    block_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
  }
}

void Sealer::Finish(std::string* sealed) {
  Add("", sealed);
  SealBlock(true, sealed);
}

void Sealer::SealBlock(bool is_last, std::string* sealed) {
  std::string_view block = block_;
  if (compressor_ != nullptr) {
    compressed_.resize(block_.size());
    // A block that does not get smaller stays as it is.
    const auto size =
        compressor_->Compress(block.substr(1), compressed_.data() + 1, compressed_.size() - 1);
    compressed_[0] = kZstdBlock;
    if (size.has_value() && *size < block.size() - 1) {
      block = std::string_view(compressed_).substr(0, 1 + *size);
    }
  }
  cipher_.Seal({.index = next_++, .is_last = is_last}, block, sealed);
  block_.resize(1);
}

std::string Seal(const Sealing& sealing, std::string_view context, std::string_view bytes) {
  Sealer sealer(sealing, context);
  std::string sealed;
  sealer.Add(bytes, &sealed);
  sealer.Finish(&sealed);
  return sealed;
}

}  // namespace longstream
