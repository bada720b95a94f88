// Safetensors bytes and model directories made for a test.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_CHECKPOINT_FILES_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// The bytes of a safetensors file with this header and this data.
std::string SafetensorsBytes(std::string_view header, std::string_view data);

// A tensor to be stored.
struct TensorSource {
  std::string name;
  std::string type_name;  // "F32", ...
  std::vector<int64_t> shape;
  std::string bytes;
};

// An F32 tensor of the numbers first, first + step, ...
TensorSource CountingTensor(const std::string& name, std::vector<int64_t> shape, float first = 0.0f,
                            float step = 1.0f);

// The bytes of a valid safetensors file of these tensors, in this order. The header ends with `pad`
// spaces, so that a test can misalign the data.
std::string SafetensorsBytes(const std::vector<TensorSource>& tensors, size_t pad = 0);

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_CHECKPOINT_FILES_H_
