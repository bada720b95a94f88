// Reads varints, fixed numbers and lengths.
#include "service/wire/wire_reader.h"

#include <algorithm>

namespace longstream {
namespace {

constexpr size_t kMaxVarintBytes = 10;
constexpr size_t kMaxVarintBytesOf32Bits = 5;  // of tags and lengths
constexpr uint64_t kTypeBits = 3;

}  // namespace

bool WireReader::ReadVarint(uint64_t* value) { return ReadVarint(kMaxVarintBytes, value); }

bool WireReader::ReadVarint(size_t max_bytes, uint64_t* value) {
  const std::string_view rest = bytes_.substr(position_, max_bytes);
  uint64_t result = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest[i]);
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      position_ += i + 1;
      return true;
    }
  }
  return false;
}

bool WireReader::ReadTag(WireTag* tag) {
  const size_t begin = position_;
  uint64_t value = 0;
  if (!ReadVarint(kMaxVarintBytesOf32Bits, &value)) return false;
  // protobuf, too, ignores the bits above 32.
  const auto bits = static_cast<uint32_t>(value);
  tag->number = static_cast<int>(bits >> kTypeBits);
  tag->type = static_cast<WireType>(bits & 7);
  if (tag->number != 0 && tag->type <= WireType::kFixed32) return true;
  position_ = begin;
  return false;
}

bool WireReader::ReadFixed(size_t num_bytes, uint64_t* value) {
  if (bytes_.size() - position_ < num_bytes) return false;
  *value = 0;
  for (size_t i = 0; i < num_bytes; ++i) {
    *value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[position_ + i])) << (8 * i);
  }
  position_ += num_bytes;
  return true;
}

bool WireReader::ReadBytes(std::string_view* bytes) {
  const size_t begin = position_;
  uint64_t length = 0;
  if (!ReadVarint(kMaxVarintBytesOf32Bits, &length)) return false;
  if (length > bytes_.size() - position_) {
    position_ = begin;
    return false;
  }
  *bytes = bytes_.substr(position_, length);
  position_ += length;
  return true;
}

bool WireReader::SkipValue(const WireTag& tag, int depth) {
  uint64_t number = 0;
  std::string_view bytes;
  switch (tag.type) {
    case WireType::kVarint:
      return ReadVarint(&number);
    case WireType::kFixed64:
      return ReadFixed64(&number);
    case WireType::kBytes:
      return ReadBytes(&bytes);
    case WireType::kFixed32:
      return ReadFixed32(&number);
    case WireType::kEndGroup:
      return false;
    case WireType::kGroup:
      break;
  }
  if (depth == 0) return false;
  while (true) {
    WireTag inner;
    if (!ReadTag(&inner)) return false;
    if (inner.type == WireType::kEndGroup) return inner.number == tag.number;
    if (!SkipValue(inner, depth - 1)) return false;
  }
}

}  // namespace longstream
