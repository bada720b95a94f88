// The header of a GGUF file, the format of llama.cpp. Everything is checked before use.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_HEADER_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/gguf/gguf_value.h"

namespace longstream {

// A type of tensors: elements, or blocks that hold several elements.
struct GgufTensorType {
  uint32_t id;            // its number in the file
  std::string_view name;  // "F32", "Q4_K", ...
  uint32_t elements;      // of a block; a row is a whole number of blocks
  uint32_t bytes;         // of a block
};

// The type of this number; nullptr: there is none.
const GgufTensorType* FindGgufTensorType(uint32_t id);

struct GgufTensor {
  std::string name;
  const GgufTensorType* type = nullptr;
  std::vector<int64_t> shape;  // row-major: the last extent is that of a row
  uint64_t offset = 0;         // of its first byte in the file
  uint64_t num_bytes = 0;
};

// The header of a file of version 2 or 3, little-endian:
//   "GGUF" | u32 version | u64 tensors | u64 metadata values
//   | per value: string key, u32 type, value | per tensor: string name, u32 number of extents,
//   u64 extents (a row's first), u32 type, u64 offset in the data | padding | data
// A string is a u64 length and its bytes; an array is a u32 type, a u64 number and the elements.
// The data begins at a multiple of general.alignment (32 if absent), and so does each tensor.
struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // in the order of their data
  uint64_t data_begin = 0;
};

// The most bytes that a header may have. The largest known headers have 20 MB: vocabulary and
// merges. Headers are read before the memory of the model is admitted.
inline constexpr uint64_t kMaxGgufHeaderBytes = uint64_t{128} << 20;

// Reads the header of a file of `file_bytes`. `front` holds the file's first bytes and must outlive
// the result. nullopt: the header is longer than `front`, and the file is, too.
//
// Checks every number against the file's size, and that no two tensors overlap. Throws BackendError
// with `path` in its sentence. LS_DATA_LOSS: a check fails. LS_UNIMPLEMENTED: another version or
// byte order, an array of arrays, or an unknown type.
std::optional<GgufHeader> ParseGguf(std::span<const std::byte> front, uint64_t file_bytes,
                                    const std::string& path);

// A header and the bytes that it points to. May be moved.
struct GgufFront {
  GgufFront() = default;
  GgufFront(GgufFront&&) = default;
  GgufFront& operator=(GgufFront&&) = default;

  std::vector<std::byte> bytes;  // of the file, up to the tensors' data
  GgufHeader header;
};

// Reads the header with read(offset, to), which fills `to` with bytes of the file or throws.
// Reads a large header in several attempts, so it takes up to twice the header's bytes, or 2 MiB;
// the result takes the header's bytes only. Throws as ParseGguf does.
GgufFront ReadGgufFront(uint64_t file_bytes, const std::string& path,
                        const std::function<void(uint64_t, std::span<std::byte>)>& read);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_HEADER_H_
