// The tensors of a model directory.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_CHECKPOINT_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/computed_tensor.h"
#include "backends/checkpoint/tensor_file.h"
#include "kernels/core/executor.h"
#include "kernels/core/quantise.h"

namespace longstream {

// The tensors that the files of a directory store, and the tensors that are computed from them.
// After the calls of AddFile and AddComputed it is immutable, and safe to read from several
// threads.
class Checkpoint {
 public:
  // Opens model.safetensors, or the shards that model.safetensors.index.json names, or the GGUF
  // model at the path (gguf_model.h: FindGgufFiles). LS_NOT_FOUND: there is none of these, or a
  // shard is missing. LS_DATA_LOSS: a file is damaged. LS_INVALID_ARGUMENT: the index names a file
  // outside the directory, or disagrees with its shards; a directory has several GGUF models.
  // LS_UNIMPLEMENTED: a GGUF model has an architecture or a type that is not served.
  explicit Checkpoint(const std::string& path);
  // Has the tensors of one file.
  Checkpoint(std::string directory, std::unique_ptr<TensorFile> file);

  // Adds the tensors of a file. LS_INVALID_ARGUMENT: another file has a tensor of the same name.
  void AddFile(std::unique_ptr<TensorFile> file);
  // Adds a computed tensor, and takes its stored parts away: Find does not find them any more, and
  // no reader needs to read them. The tensor may have the name of one of its parts.
  // LS_INVALID_ARGUMENT: there is another tensor of this name.
  void AddComputed(std::unique_ptr<ComputedTensor> computed, std::span<const std::string> parts);

  // Takes a tensor away that has no effect, so that no reader needs to read it.
  void Remove(std::string_view name);

  // The name of the checkpoint in errors: the directory, or the first GGUF file.
  const std::string& path() const { return path_; }
  // The directory of its files.
  const std::string& directory() const { return directory_; }
  bool is_one_file() const { return path_ != directory_; }
  const std::vector<std::unique_ptr<TensorFile>>& files() const { return files_; }
  // Whether each path still leads to the file that was opened.
  bool IsUnchanged() const;
  // Calls TensorFile::RequireUnwritten for every file.
  void RequireUnwritten() const;
  // All tensors by name, in byte order.
  const std::map<std::string, const Tensor*, std::less<>>& tensors() const { return tensors_; }
  // Returns nullptr if there is no such tensor.
  const Tensor* Find(std::string_view name) const;
  // Returns a tensor that a file stores; nullopt if there is none, or it is computed.
  std::optional<StoredPart> FindStored(std::string_view name) const;
  // Returns the tensor. LS_INVALID_ARGUMENT: it is missing, has another shape, or has no weight
  // type.
  const Tensor& Get(std::string_view name, std::span<const int64_t> shape) const;
  // The path of the file that holds a tensor. The tensor belongs to this checkpoint, here and
  // below.
  const std::string& FileOf(const Tensor& tensor) const;
  // " " and how a tensor is computed (ComputedTensor::recipe); "" if it is stored.
  std::string RecipeOf(const Tensor& tensor) const;
  // Reads bytes [first, first + to.size()) of a tensor's elements. Fails as TensorFile::Read and
  // ComputedTensor::ReadRows do. LS_INVALID_ARGUMENT: the tensor is computed, and the bytes are not
  // whole rows.
  void Read(const Tensor& tensor, uint64_t first, std::span<std::byte> to,
            const Executor& executor) const;
  // Reads rows [first, first + rows) as groups. REQUIRES: tensor.groups is set.
  void ReadGroups(const Tensor& tensor, int64_t first, int64_t rows, WeightGroup* to,
                  const Executor& executor) const;

 private:
  // Where a tensor comes from: a file, or a computation.
  struct Source {
    StoredPart stored{};
    const ComputedTensor* computed = nullptr;
  };

  const Source& SourceOf(const Tensor& tensor) const;
  void ReadIndex(const std::string& path);

  std::string path_;
  std::string directory_;
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::vector<std::unique_ptr<ComputedTensor>> computed_;
  std::map<std::string, const Tensor*, std::less<>> tensors_;
  std::map<const Tensor*, Source> sources_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_CHECKPOINT_H_
