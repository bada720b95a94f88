// GGUF bytes made for a test.
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"

namespace longstream {
namespace {

constexpr size_t kAlignment = 32;

void Pad(std::string* bytes) {
  bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
}

// The beginning of an array.
std::string ArrayOf(uint32_t type, size_t count) {
  return BytesOf(type) + BytesOf<uint64_t>(count);
}

}  // namespace

std::string StringBytes(std::string_view text) {
  return BytesOf<uint64_t>(text.size()) + std::string(text);
}

GgufBytes& GgufBytes::Raw(std::string_view key, uint32_t type, std::string_view bytes) {
  values_ += StringBytes(key) + BytesOf(type) + std::string(bytes);
  ++num_values_;
  return *this;
}

GgufBytes& GgufBytes::U32(std::string_view key, uint32_t value) {
  return Raw(key, 4, BytesOf(value));
}
GgufBytes& GgufBytes::F32(std::string_view key, float value) { return Raw(key, 6, BytesOf(value)); }
GgufBytes& GgufBytes::Bool(std::string_view key, bool value) {
  return Raw(key, 7, BytesOf<uint8_t>(value ? 1 : 0));
}
GgufBytes& GgufBytes::Text(std::string_view key, std::string_view value) {
  return Raw(key, 8, StringBytes(value));
}

GgufBytes& GgufBytes::Texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = ArrayOf(8, values.size());
  for (const std::string& value : values) bytes += StringBytes(value);
  return Raw(key, 9, bytes);
}
GgufBytes& GgufBytes::I32s(std::string_view key, const std::vector<int32_t>& values) {
  std::string bytes = ArrayOf(5, values.size());
  for (const int32_t value : values) bytes += BytesOf(value);
  return Raw(key, 9, bytes);
}
GgufBytes& GgufBytes::F32s(std::string_view key, const std::vector<float>& values) {
  std::string bytes = ArrayOf(6, values.size());
  for (const float value : values) bytes += BytesOf(value);
  return Raw(key, 9, bytes);
}
GgufBytes& GgufBytes::Bools(std::string_view key, const std::vector<bool>& values) {
  std::string bytes = ArrayOf(7, values.size());
  for (const bool value : values) bytes += BytesOf<uint8_t>(value ? 1 : 0);
  return Raw(key, 9, bytes);
}

GgufBytes& GgufBytes::Tensor(std::string_view name, const std::vector<uint64_t>& extents,
                             uint32_t type, std::string_view data, int64_t offset) {
  tensors_ += StringBytes(name) + BytesOf(static_cast<uint32_t>(extents.size()));
  for (const uint64_t extent : extents) tensors_ += BytesOf(extent);
  const uint64_t place = offset < 0 ? data_.size() : static_cast<uint64_t>(offset);
  tensors_ += BytesOf(type) + BytesOf(place);
  data_ += data;
  Pad(&data_);
  ++num_tensors_;
  return *this;
}

GgufBytes& GgufBytes::StateCounts(uint64_t tensors, uint64_t values) {
  has_counts_ = true;
  stated_tensors_ = tensors;
  stated_values_ = values;
  return *this;
}

std::string GgufBytes::Bytes() const {
  std::string bytes = "GGUF" + BytesOf(version_);
  bytes += BytesOf(has_counts_ ? stated_tensors_ : num_tensors_);
  bytes += BytesOf(has_counts_ ? stated_values_ : num_values_);
  bytes += values_ + tensors_;
  Pad(&bytes);
  return bytes + data_;
}

}  // namespace longstream
