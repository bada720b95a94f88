// Safetensors files and checkpoints made of them, mapped read-only and checked before use.
#ifndef LONGSTREAM_BACKENDS_COMMON_WEIGHTS_SAFETENSORS_H_
#define LONGSTREAM_BACKENDS_COMMON_WEIGHTS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/dtype.h"

namespace longstream {

// One tensor of a mapped file. Borrows from its SafetensorsFile.
struct StoredTensor {
  std::string name;                 // UTF-8
  std::string type_name;            // as the file says: "F32", "BF16", "I64", ...
  std::optional<DType> type;        // nullopt: a known type that is no weight type (I64, ...)
  std::vector<int64_t> shape;       // row-major; empty: a scalar
  std::span<const std::byte> data;  // [product of shape] elements; may be misaligned for them
};

// "[4096, 1024]"
std::string ShapeText(std::span<const int64_t> shape);

// When and how large a file is: another stamp, another content.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t written_ns = 0;  // since 1970
  int64_t changed_ns = 0;  // its bytes or its state (st_ctim)

  bool operator==(const FileStamp&) const = default;
};

// A safetensors file:  u64 length of the header, little-endian | header, JSON | data.
// The header maps tensor names to {dtype, shape, data_offsets: [begin, end) in the data}.
//
// Everything is checked when the file is opened: the header's length against the file's (and a
// limit of 100 MB, as the format states), its JSON, types, shapes, that each tensor's bytes equal
// its shape, and that the tensors cover the data without overlap or gap. A file that fails is
// refused with LS_DATA_LOSS, one that cannot be opened with LS_NOT_FOUND.
//
// The size is taken from the open file, and its pages are mapped privately. A file that another
// process shortens while it is mapped still faults (SIGBUS) when a lost page is read: checkpoints
// are replaced by renaming, never rewritten in place.
//
// Immutable; safe to read from several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  // Of the file when it was opened.
  const FileStamp& stamp() const { return stamp_; }
  // In the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // The length and the header; what is behind them.
  std::span<const std::byte> header() const { return map_.first(header_bytes_); }
  std::span<const std::byte> data() const { return map_.subspan(header_bytes_); }

  // Tells the kernel that these bytes of the file are not needed any more: the pages that hold
  // nothing else leave this process's memory. They stay in the system's cache of the file, which
  // gives them up where memory is short; if touched again they are read again.
  void Release(std::span<const std::byte> bytes) const;

 private:
  void Unmap();

  std::string path_;
  FileStamp stamp_;
  std::span<const std::byte> map_;  // the whole file
  size_t header_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
};

// The header of a safetensors file, apart from the mapping: checks `file` (a whole file's bytes)
// and returns its tensors, which point into it. `path` is for sentences.
std::vector<StoredTensor> ParseSafetensors(std::span<const std::byte> file,
                                           const std::string& path);

// The tensors of a model directory: model.safetensors, or the shards that
// model.safetensors.index.json names. Immutable; safe to read from several threads.
class Checkpoint {
 public:
  // LS_NOT_FOUND: neither file, or a shard is missing. LS_DATA_LOSS: a damaged file.
  // LS_INVALID_ARGUMENT: an index that leaves the directory, or disagrees with its shards.
  explicit Checkpoint(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  // Whether every file's path still leads to what was opened.
  bool IsUnchanged() const;
  // By name, in byte order.
  const std::map<std::string, const StoredTensor*, std::less<>>& tensors() const {
    return tensors_;
  }
  // nullptr where there is none.
  const StoredTensor* Find(std::string_view name) const;
  // The tensor, which must be there in this shape and a weight type; else LS_INVALID_ARGUMENT.
  const StoredTensor& Get(std::string_view name, std::span<const int64_t> shape) const;
  // The path of the file that holds a tensor.
  const std::string& FileOf(const StoredTensor& tensor) const;
  // As SafetensorsFile::Release, for the first `bytes` of a tensor.
  void Release(const StoredTensor& tensor, size_t bytes) const;

 private:
  // REQUIRES: a tensor of this checkpoint.
  const SafetensorsFile& Holder(const StoredTensor& tensor) const;
  void AddFile(const std::string& path);
  void ReadIndex(const std::string& path);

  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_WEIGHTS_SAFETENSORS_H_
