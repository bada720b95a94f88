// A block is first opened as one that others follow, then as the last one.
#include "service/sealing/unsealer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sealing/block_kind.h"

namespace longstream {
namespace {

size_t GetSize(std::string_view from) {
  size_t size = 0;
  for (size_t i = 0; i < kBlockSizeBytes; ++i) {
    size |= size_t{static_cast<unsigned char>(from[i])} << (8 * i);
  }
  return size;
}

}  // namespace

Unsealer::Unsealer(std::shared_ptr<const SealingKeys> keys, std::string_view context)
    : keys_(std::move(keys)), context_(context) {}

Unsealer::~Unsealer() = default;

void Unsealer::Add(std::string_view sealed) {
  buffer_.erase(0, begin_);
  begin_ = 0;
  buffer_ += sealed;
}

absl::Status Unsealer::Altered(std::string_view how) const {
  return absl::DataLossError(absl::StrCat("its block ", next_, " ", std::string(how)));
}

absl::Status Unsealer::ReadHeader() {
  const std::string_view header = std::string_view(buffer_).substr(begin_, kSealedHeaderBytes);
  const absl::StatusOr<const SealingKey*> key = CheckSealedHeader(header, *keys_);
  if (!key.ok()) return key.status();
  cipher_.emplace(*key, header, context_);
  begin_ += header.size();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string_view>> Unsealer::Next() {
  if (!cipher_.has_value()) {
    if (held() < kSealedHeaderBytes) return std::nullopt;
    if (absl::Status status = ReadHeader(); !status.ok()) return status;
  }
  if (is_complete_) {
    if (held() > 0) return absl::DataLossError("bytes follow its last block");
    return std::nullopt;
  }
  if (held() < kBlockSizeBytes) return std::nullopt;
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  const size_t size = GetSize(rest);
  if (size <= kBlockTagBytes || size > kMaxSealedBlockBytes) return Altered("has a wrong size");
  if (rest.size() < kBlockSizeBytes + size) return std::nullopt;
  const std::string_view sealed = rest.substr(kBlockSizeBytes, size);
  block_.resize(size - kBlockTagBytes);
  if (!cipher_->Open({.index = next_, .is_last = false}, sealed, block_.data())) {
    is_complete_ = cipher_->Open({.index = next_, .is_last = true}, sealed, block_.data());
    if (!is_complete_) return Altered("was altered, or belongs to another place");
  }
  const std::optional<std::string_view> bytes = Inflate(block_);
  if (!bytes.has_value()) return Altered("was sealed in a wrong way");
  begin_ += kBlockSizeBytes + size;
  ++next_;
  return bytes;
}

std::optional<std::string_view> Unsealer::Inflate(std::string_view block) {
  const char kind = block.front();
  block.remove_prefix(1);
  if (kind == kPlainBlock) return block;
  if (kind != kZstdBlock) return std::nullopt;
  if (inflater_ == nullptr) inflater_ = std::make_unique<BlockInflater>();
  inflated_.resize(kSealedBlockBytes);
  const auto size = inflater_->Inflate(block, inflated_.data(), inflated_.size());
  if (!size.has_value()) return std::nullopt;
  return std::string_view(inflated_).substr(0, *size);
}

absl::Status Unsealer::Finish() const {
  if (!is_complete_) return absl::DataLossError("it is cut off");
  return held() == 0 ? absl::OkStatus() : absl::DataLossError("bytes follow its last block");
}

absl::StatusOr<std::string> Unseal(const std::shared_ptr<const SealingKeys>& keys,
                                   std::string_view context, std::string_view sealed) {
  Unsealer unsealer(keys, context);
  unsealer.Add(sealed);
  std::string bytes;
  while (true) {
    const absl::StatusOr<std::optional<std::string_view>> block = unsealer.Next();
    if (!block.ok()) return block.status();
    if (!block->has_value()) break;
    bytes += **block;
  }
  if (absl::Status status = unsealer.Finish(); !status.ok()) return status;
  return bytes;
}

}  // namespace longstream
