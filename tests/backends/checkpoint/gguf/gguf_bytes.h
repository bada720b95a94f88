// GGUF bytes made for a test.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_GGUF_GGUF_BYTES_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_GGUF_GGUF_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Writes a GGUF file, valid or not. Each call appends to the header.
class GgufBytes {
 public:
  explicit GgufBytes(uint32_t version = 3) : version_(version) {}

  GgufBytes& U32(std::string_view key, uint32_t value);
  GgufBytes& F32(std::string_view key, float value);
  GgufBytes& Bool(std::string_view key, bool value);
  GgufBytes& Text(std::string_view key, std::string_view value);
  GgufBytes& Texts(std::string_view key, const std::vector<std::string>& values);
  GgufBytes& I32s(std::string_view key, const std::vector<int32_t>& values);
  GgufBytes& F32s(std::string_view key, const std::vector<float>& values);
  GgufBytes& Bools(std::string_view key, const std::vector<bool>& values);
  // A value of any type: its bytes as they are.
  GgufBytes& Raw(std::string_view key, uint32_t type, std::string_view bytes);
  // A tensor; `extents`: a row's first. Its data follows that of the tensor before it, padded to 32
  // bytes. `offset`: where the header says that it is, if not there.
  GgufBytes& Tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                    std::string_view data, int64_t offset = -1);
  // Makes the header state other numbers of tensors and values than there are.
  GgufBytes& StateCounts(uint64_t tensors, uint64_t values);

  std::string Bytes() const;

 private:
  uint32_t version_;
  uint64_t num_values_ = 0;
  uint64_t num_tensors_ = 0;
  bool has_counts_ = false;
  uint64_t stated_values_ = 0;
  uint64_t stated_tensors_ = 0;
  std::string values_;
  std::string tensors_;
  std::string data_;
};

// The bytes of a number, little-endian.
template <typename T>
std::string BytesOf(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}
// A string as GGUF stores it: its length and its bytes.
std::string StringBytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_GGUF_GGUF_BYTES_H_
