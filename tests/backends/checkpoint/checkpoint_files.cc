// Safetensors bytes and model directories made for a test.
#include "tests/backends/checkpoint/checkpoint_files.h"

#include <cstring>
#include <utility>

#include "backends/checkpoint/safetensors.h"

namespace longstream {

std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  bytes += header;
  bytes += data;
  return bytes;
}

TensorSource CountingTensor(const std::string& name, std::vector<int64_t> shape, float first,
                            float step) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  TensorSource tensor{name, "F32", std::move(shape), {}};
  tensor.bytes.resize(static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    const float value = first + step * static_cast<float>(i);
    std::memcpy(tensor.bytes.data() + i * static_cast<int64_t>(sizeof(float)), &value,
                sizeof(float));
  }
  return tensor;
}

std::string SafetensorsBytes(const std::vector<TensorSource>& tensors, size_t pad) {
  std::string header = "{";
  std::string data;
  for (const TensorSource& tensor : tensors) {
    header += (header.size() > 1 ? ", \"" : "\"") + tensor.name + "\": {\"dtype\": \"" +
              tensor.type_name + "\", \"shape\": " + ShapeText(tensor.shape) +
              ", \"data_offsets\": [" + std::to_string(data.size()) + ", " +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  return SafetensorsBytes(header + "}" + std::string(pad, ' '), data);
}

}  // namespace longstream
