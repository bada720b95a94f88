// Tensors of a checkpoint, one by one, into packed weights and f32 vectors.
#ifndef LONGSTREAM_BACKENDS_COMMON_WEIGHTS_WEIGHT_READER_H_
#define LONGSTREAM_BACKENDS_COMMON_WEIGHTS_WEIGHT_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/common/layers/model_weights.h"
#include "backends/common/weights/load_options.h"
#include "backends/common/weights/safetensors.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// One tensor of several that lie one below the other in a weight.
struct WeightPart {
  std::string name;  // empty: no tensor, rows of zeros (vectors only)
  int64_t rows = 0;
};

// Owns what it makes until Finish hands it over. Each tensor is read once, window by window of some
// MiB, each of which is converted, hashed, and its pages given back. With kCheck it only checks
// names, shapes and types, and returns empty weights: a wrong checkpoint is refused before
// gigabytes are read.
//
// Throws BackendError as LoadWeights does. Used by one thread.
class WeightReader {
 public:
  enum class Mode { kCheck, kRead };

  // Borrows everything until it is destroyed.
  WeightReader(Mode mode, const Checkpoint& checkpoint, const LoadOptions& options,
               const OpTable& ops, const Executor& executor, Device& device);

  // The parts, each [rows, k] in the file, packed as one weight [sum of rows, k]. Its type is the
  // one that the options ask for; else the parts' own, or f32 where they differ.
  PackedWeight Projection(const std::vector<WeightPart>& parts, int64_t k);

  // Two weights of one tensor each, in the type that they would have as parts of one: an op reads
  // both at a time.
  std::pair<PackedWeight, PackedWeight> Pair(const WeightPart& first, const WeightPart& second,
                                             int64_t k);

  // The parts, each [rows] in the file, one after the other in f32.
  const float* Vector(const std::vector<WeightPart>& parts);

  // The tensor, [rows, cols] in the file, in f32.
  Matrix Table(std::string_view name, int64_t rows, int64_t cols);

  // A copy of values that are computed, not read.
  const float* Constants(std::span<const float> values);

  // A tensor that the model takes to be the same as `original`, which has been read. Nothing to do
  // where the file leaves it out; LS_INVALID_ARGUMENT where the two differ.
  void RequireCopy(std::string_view name, std::string_view original);

  // Refuses the first tensor that no call named and that is not known to be harmless.
  void RefuseUnread() const;

  // Moves storage into `weights` and fills in num_parameters, bytes and fingerprint.
  void Finish(ModelWeights* weights);

 private:
  struct HostBlock {
    OwnedMemory memory;
    size_t size = 0;
    std::byte* data() const { return static_cast<std::byte*>(memory.get()); }
  };

  // Zeroed, 64-byte aligned memory of the host.
  HostBlock Allocate(size_t bytes) const;
  // Adds a filled block to storage_, as memory of the device: where that is the host's, the block
  // itself.
  std::byte* Keep(HostBlock block);
  // The type that parts [rows, k] are packed in.
  DType TypeOf(const std::vector<WeightPart>& parts, int64_t k) const;
  PackedWeight Packed(const std::vector<WeightPart>& parts, int64_t k, DType type);
  // Reads a tensor that goes into the model as `type`: calls read(first, count) for its windows of
  // elements, rows of `row` elements each, in order, and hashes and releases what has been read.
  template <typename Read>
  void ReadTensor(const StoredTensor& tensor, int64_t row, DType type, const Read& read);
  // Rows [first, first + rows) of a tensor, to `first_row` of the weight and the rows behind it.
  void Pack(const StoredTensor& tensor, int64_t first, int64_t rows, int64_t first_row,
            const PackedWeight& weight, void* destination);
  // Calls scan(first, count) for pieces of elements [begin, begin + count) of a tensor on all
  // threads. It returns which of its elements `type` cannot hold (LS_INVALID_ARGUMENT), or -1.
  template <typename Scan>
  void ScanElements(const StoredTensor& tensor, int64_t begin, int64_t count, DType type,
                    const Scan& scan);
  // Elements [begin, begin + count) of a tensor as `type`. LS_INVALID_ARGUMENT for a number that
  // `type` cannot hold.
  void ConvertElements(const StoredTensor& tensor, int64_t begin, int64_t count, DType type,
                       std::byte* destination);

  const Mode mode_;
  const Checkpoint& checkpoint_;
  const LoadOptions& options_;
  const OpTable& ops_;
  const Executor& executor_;
  Device& device_;

  std::set<std::string, std::less<>> read_;
  std::map<std::string, uint64_t> hashes_;  // by name, so that the order of reading is no matter
  uint64_t num_parameters_ = 0;
  uint64_t bytes_ = 0;
  std::vector<OwnedMemory> storage_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_WEIGHTS_WEIGHT_READER_H_
