// Safetensors files. Everything is checked before use.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/checkpoint/tensor_file.h"

namespace longstream {

// A safetensors file:  u64 length of the header, little-endian | header, JSON | data.
// The header maps tensor names to {dtype, shape, data_offsets: [begin, end) in the data}.
// The constructor checks the header's length (against the file's length and the format's limit of
// 100 MB), its JSON, the types and the shapes. It also checks that each tensor's bytes fit its
// shape, and that the tensors cover the data without overlap or gap. LS_DATA_LOSS: a check fails.
// LS_NOT_FOUND: the file cannot be opened.
class SafetensorsFile final : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);
};

// The number of bytes that the header and its length take in a file of `file_bytes`. `begin` holds
// the file's first bytes: at least kSafetensorsBegin of them, or the whole file. Throws as
// SafetensorsFile does; error sentences contain `path`.
inline constexpr uint64_t kSafetensorsBegin = 64;
uint64_t SafetensorsFrontBytes(std::span<const std::byte> begin, uint64_t file_bytes,
                               const std::string& path);

// The tensors of a file of `file_bytes`. `front` holds the file's first bytes: at least the header
// and its length.
std::vector<StoredTensor> ParseSafetensors(std::span<const std::byte> front, uint64_t file_bytes,
                                           const std::string& path);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_
