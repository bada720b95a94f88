// Safetensors files and checkpoints made of them, checked before use.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/file_descriptor.h"
#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"

namespace longstream {

// Where a tensor lies in its file.
struct StoredTensor {
  std::string name;            // UTF-8
  std::string type_name;       // as the file says: "F32", "BF16", "I64", ...
  std::optional<DType> type;   // nullopt: a known type that is no weight type (I64, ...)
  std::vector<int64_t> shape;  // row-major; empty: a scalar
  uint64_t offset = 0;         // of its first byte in the file; of any alignment
  uint64_t num_bytes = 0;      // of [product of shape] elements
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
// The file stays open and is read piece by piece, never mapped: one that another process shortens
// meanwhile, or a disk that fails, is an error of a read and no signal.
//
// Immutable; safe to read from several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  // Of the file when it was opened.
  const FileStamp& stamp() const { return stamp_; }
  // In the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // The length and the header.
  std::span<const std::byte> front() const { return front_; }

  // Bytes [offset, offset + to.size()) of the file, on all threads. LS_DATA_LOSS where they are not
  // there any more, or cannot be read.
  void Read(uint64_t offset, std::span<std::byte> to, const Executor& executor) const;

  // LS_UNAVAILABLE where somebody has written to the file since it was opened: what was read may be
  // of two versions. A file that has been replaced, by renaming another to its path, is still
  // whole.
  void RequireUnwritten() const;

 private:
  std::string path_;
  FileStamp stamp_;
  FileDescriptor file_;
  std::vector<std::byte> front_;
  std::vector<StoredTensor> tensors_;
};

// How many bytes of a file of file_bytes are the length and the header. `begin` are its first
// bytes, at least kSafetensorsBegin of them or all. Throws as SafetensorsFile does; `path` is for
// sentences.
inline constexpr uint64_t kSafetensorsBegin = 64;
uint64_t SafetensorsFrontBytes(std::span<const std::byte> begin, uint64_t file_bytes,
                               const std::string& path);

// The tensors of a file of file_bytes that begins with `front`, at least its length and header.
std::vector<StoredTensor> ParseSafetensors(std::span<const std::byte> front, uint64_t file_bytes,
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
  // Of every file, as SafetensorsFile has it.
  void RequireUnwritten() const;
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
  // Bytes [first, first + to.size()) of a tensor, as SafetensorsFile::Read.
  void Read(const StoredTensor& tensor, uint64_t first, std::span<std::byte> to,
            const Executor& executor) const;

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

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_
