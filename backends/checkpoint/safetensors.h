// Safetensors files and checkpoints made of them. Everything is checked before use.
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

// A tensor's type, shape and place in its file.
struct StoredTensor {
  std::string name;            // UTF-8
  std::string type_name;       // the type's name in the file: "F32", "BF16", "I64", ...
  std::optional<DType> type;   // nullopt: a valid type that weights cannot have (I64, ...)
  std::vector<int64_t> shape;  // row-major; empty: a scalar
  uint64_t offset = 0;         // of its first byte in the file; may be misaligned
  uint64_t num_bytes = 0;      // the product of shape times the element's size
};

// The shape as text, such as "[4096, 1024]".
std::string ShapeText(std::span<const int64_t> shape);

// A file's times and size. A different stamp means that the content may be different.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t written_ns = 0;  // last change of its bytes, since 1970
  int64_t changed_ns = 0;  // last change of its bytes or of its name, owner or mode (st_ctim)

  bool operator==(const FileStamp&) const = default;
};

// A safetensors file:  u64 length of the header, little-endian | header, JSON | data.
// The header maps tensor names to {dtype, shape, data_offsets: [begin, end) in the data}.
// The constructor checks the header's length (against the file's length and the format's limit of
// 100 MB), its JSON, the types and the shapes. It also checks that each tensor's bytes fit its
// shape, and that the tensors cover the data without overlap or gap. LS_DATA_LOSS: a check fails.
// LS_NOT_FOUND: the file cannot be opened.
//
// The file stays open and is read piece by piece. It is never mapped: if another process shortens
// it, or a disk fails, a read fails and no signal is raised.
//
// Immutable; safe to read from several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  // The file's stamp when it was opened.
  const FileStamp& stamp() const { return stamp_; }
  // All tensors, in the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // The file's first bytes: the header's length and the header.
  std::span<const std::byte> front() const { return front_; }

  // Reads bytes [offset, offset + to.size()) of the file on all threads. LS_DATA_LOSS: the file has
  // been shortened, or cannot be read.
  void Read(uint64_t offset, std::span<std::byte> to, const Executor& executor) const;

  // LS_UNAVAILABLE: the file was written to after it was opened, so the bytes read may belong to
  // two versions. A file that was replaced (another file was renamed to its path) is still whole.
  void RequireUnwritten() const;

 private:
  std::string path_;
  FileStamp stamp_;
  FileDescriptor file_;
  std::vector<std::byte> front_;
  std::vector<StoredTensor> tensors_;
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

// The tensors of a model directory: model.safetensors, or the shards that
// model.safetensors.index.json names. Immutable; safe to read from several threads.
class Checkpoint {
 public:
  // LS_NOT_FOUND: neither file exists, or a shard is missing. LS_DATA_LOSS: a file is damaged.
  // LS_INVALID_ARGUMENT: the index names a file outside the directory, or disagrees with its
  // shards.
  explicit Checkpoint(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  // Whether each path still leads to the file that was opened.
  bool IsUnchanged() const;
  // Calls SafetensorsFile::RequireUnwritten for every file.
  void RequireUnwritten() const;
  // All tensors by name, in byte order.
  const std::map<std::string, const StoredTensor*, std::less<>>& tensors() const {
    return tensors_;
  }
  // Returns nullptr if there is no such tensor.
  const StoredTensor* Find(std::string_view name) const;
  // Returns the tensor. LS_INVALID_ARGUMENT: it is missing, has another shape, or has no weight
  // type.
  const StoredTensor& Get(std::string_view name, std::span<const int64_t> shape) const;
  // The path of the file that holds a tensor.
  const std::string& FileOf(const StoredTensor& tensor) const;
  // Reads bytes [first, first + to.size()) of a tensor. Fails as SafetensorsFile::Read does.
  void Read(const StoredTensor& tensor, uint64_t first, std::span<std::byte> to,
            const Executor& executor) const;

 private:
  // The file of a tensor. REQUIRES: the tensor belongs to this checkpoint.
  const SafetensorsFile& Holder(const StoredTensor& tensor) const;
  void AddFile(const std::string& path);
  void ReadIndex(const std::string& path);

  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_SAFETENSORS_H_
