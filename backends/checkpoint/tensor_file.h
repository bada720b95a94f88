// Tensors, and the files that store them.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_TENSOR_FILE_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_TENSOR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/files/file_descriptor.h"
#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"

namespace longstream {

// A tensor as its readers see it.
struct Tensor {
  std::string name;           // UTF-8
  std::string type_name;      // the stored type's name: "F32", "BF16", "I64", ...
  std::optional<DType> type;  // of the elements that are read: f32, f16 or bf16. nullopt: a valid
                              // type that weights cannot have (I64, ...)
  // int8 or int4: the tensor can also be read as groups of this type (ComputedTensor::ReadGroups),
  // which are closer to the stored numbers than elements of 16 bits are. nullopt: it cannot.
  std::optional<DType> groups{};
  std::vector<int64_t> shape;  // row-major; empty: a scalar
  // Of the elements: the product of shape times an element's size. Of a stored tensor: the bytes in
  // the file, which are those of its blocks if it has blocks.
  uint64_t num_bytes = 0;
};

// A tensor that lies in a file as an array of elements.
struct StoredTensor : Tensor {
  uint64_t offset = 0;  // of its first byte in the file; may be misaligned
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

// An open file of tensors. A derived class reads the header of its format: its constructor fills
// `front_` and `tensors_`.
//
// The file stays open and is read piece by piece. It is never mapped: if another process shortens
// it, or a disk fails, a read fails and no signal is raised.
//
// Immutable after the constructor; then safe to read from several threads.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const { return path_; }
  // The file's stamp when it was opened.
  const FileStamp& stamp() const { return stamp_; }
  // All tensors, in the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // The file's first bytes, up to the tensors' data. They say how the data is read.
  std::span<const std::byte> front() const { return front_; }

  // Reads bytes [offset, offset + to.size()) of the file on all threads. LS_DATA_LOSS: the file has
  // been shortened, or cannot be read.
  void Read(uint64_t offset, std::span<std::byte> to, const Executor& executor) const;

  // Fills `to` with pieces of `piece_bytes` bytes, which begin at `offset` and then every `stride`
  // bytes, on all threads. Fails as Read does. REQUIRES: to.size() is a multiple of piece_bytes.
  void ReadPieces(uint64_t offset, uint64_t stride, size_t piece_bytes, std::span<std::byte> to,
                  const Executor& executor) const;

  // LS_UNAVAILABLE: the file was written to after it was opened, so the bytes read may belong to
  // two versions. A file that was replaced (another file was renamed to its path) is still whole.
  void RequireUnwritten() const;
  // Whether the path still leads to the file that was opened, and the file has the same stamp.
  bool IsUnchanged() const;

 protected:
  // LS_NOT_FOUND: the file cannot be opened, or is no regular file.
  explicit TensorFile(const std::string& path);

  std::vector<std::byte> front_;
  std::vector<StoredTensor> tensors_;

 private:
  // Reads the bytes. Returns 0, an error number, or kEnds.
  int ReadPiece(uint64_t offset, std::span<std::byte> to) const;
  // Throws LS_DATA_LOSS if `failure` is not 0.
  void RequireRead(int failure) const;

  std::string path_;
  FileStamp stamp_;
  FileDescriptor file_;
};

// A tensor and the file that holds it. Both are borrowed.
struct StoredPart {
  const TensorFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_TENSOR_FILE_H_
