// Tensors of a checkpoint, one by one, into packed weights and f32 vectors.
#ifndef LONGSTREAM_BACKENDS_PACKING_WEIGHT_READER_H_
#define LONGSTREAM_BACKENDS_PACKING_WEIGHT_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/checkpoint/load_options.h"
#include "backends/checkpoint/safetensors.h"
#include "backends/packing/packed_cache.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// One tensor, or some rows of one, of several that lie one below the other in a weight.
struct WeightPart {
  std::string name;  // empty: no tensor, rows of zeros (vectors only)
  int64_t rows = 0;
  // The rows are [first_row, first_row + rows) of stored_rows; 0: the tensor has these rows alone.
  int64_t stored_rows = 0;
  int64_t first_row = 0;
  // Not empty: another order within each block of as many rows: stored row i of a block becomes its
  // row order[i]. Its size divides rows.
  std::vector<int32_t> order{};

  // Of a vector that is stored as a matrix: how many of its numbers lie in a row of that. 0: it is
  // stored as a vector.
  int64_t vector_cols = 0;

  int64_t all_rows() const { return stored_rows == 0 ? rows : stored_rows; }
};

// Goes through a checkpoint's tensors in the order in which a model names them, and gives each the
// next block of the model's memory: so every pass over the same model has the same blocks.
//
//   kCheck  checks names, shapes and types, and returns empty weights, so that a wrong checkpoint
//           is refused before gigabytes are read. Afterwards plan() has all blocks.
//   kPack   reads each tensor once, window by window of some MiB, each of which is packed or
//           converted, and hashed.
//   kPlace  reads nothing: the memory has been filled from a file of packed weights.
//
// Throws BackendError as LoadWeights does. Used by one thread.
class WeightReader {
 public:
  enum class Mode { kCheck, kPack, kPlace };

  // Borrows everything until it is destroyed. `memory` is zeroed (kPack) and the device's.
  WeightReader(Mode mode, const Checkpoint& checkpoint, const LoadOptions& options,
               const OpTable& ops, const Executor& executor, Device& device,
               std::byte* memory = nullptr);

  // The parts, rows of k numbers each, packed as one weight [sum of rows, k]. Its type is the one
  // that the options ask for; else the parts' own, or f32 where they differ.
  PackedWeight Projection(const std::vector<WeightPart>& parts, int64_t k);

  // Two weights of one tensor each, in the type that they would have as parts of one: an op reads
  // both at a time.
  std::pair<PackedWeight, PackedWeight> Pair(const WeightPart& first, const WeightPart& second,
                                             int64_t k);

  // The parts, rows of one number each ([rows] in the file), one after the other in f32.
  // `plus` is added to each.
  const float* Vector(const std::vector<WeightPart>& parts, float plus = 0.0f);

  // The tensor, [rows, cols] in the file, in f32.
  Matrix Table(std::string_view name, int64_t rows, int64_t cols);

  // A copy of values that are computed, not read.
  const float* Constants(std::span<const float> values);

  // A tensor that the model takes to be the same as `original`, which has been read. Nothing to do
  // where the file leaves it out; LS_INVALID_ARGUMENT where the two differ.
  void RequireCopy(std::string_view name, std::string_view original);

  // Refuses the first tensor that no call named and that is not known to be harmless, nor begins
  // like one of `ignored`.
  void RefuseUnread(std::span<const std::string_view> ignored) const;

  // Of kCheck: all blocks.
  const PackedWeightsPlan& plan() const { return plan_; }
  // Of kPack: all tensors.
  WeightTotals totals() const;

 private:
  // The next block, of `bytes` bytes, made of what `recipe` says; its address. fill(destination)
  // is called with zeroed memory of the host where it is to be filled.
  template <typename Fill>
  std::byte* Block(const std::string& recipe, size_t bytes, const Fill& fill);
  // The type that parts [rows, k] are packed in.
  DType TypeOf(const std::vector<WeightPart>& parts, int64_t k) const;
  PackedWeight Packed(const std::vector<WeightPart>& parts, int64_t k, DType type);
  // Elements [first, first + count) of a tensor, whole rows, which lie at `data`; aligned.
  struct Window {
    const StoredTensor& tensor;
    int64_t first;
    int64_t count;
    const std::byte* data;

    const std::byte* At(int64_t element) const {
      return data + (element - first) * static_cast<int64_t>(SizeOf(*tensor.type));
    }
  };
  // Reads a part, rows of `row` elements each, that goes into the model as `type`: calls
  // take(window) for windows of the tensor's elements in order, and hashes them.
  template <typename Take>
  void ReadPart(const WeightPart& part, int64_t row, DType type, const Take& take);
  // All of a part in f32, as it is stored.
  void ReadNumbers(const WeightPart& part, int64_t row, std::byte* destination);
  // Rows [first, first + rows) of a window's tensor, to `first_row` of the weight and the rows
  // behind it.
  void Pack(const Window& window, int64_t first, int64_t rows, int64_t first_row,
            const PackedWeight& weight, void* destination);
  // Calls scan(first, count) for pieces of elements [begin, begin + count) of a tensor on all
  // threads. It returns which of its elements `type` cannot hold (LS_INVALID_ARGUMENT), or -1.
  template <typename Scan>
  void ScanElements(const Window& window, int64_t begin, int64_t count, DType type,
                    const Scan& scan);
  // Elements [begin, begin + count) of a tensor as `type`. LS_INVALID_ARGUMENT for a number that
  // `type` cannot hold.
  void ConvertElements(const Window& window, int64_t begin, int64_t count, DType type,
                       std::byte* destination);

  const Mode mode_;
  const Checkpoint& checkpoint_;
  const LoadOptions& options_;
  const OpTable& ops_;
  const Executor& executor_;
  Device& device_;
  std::byte* const memory_;

  PackedWeightsPlan plan_;
  std::set<std::string, std::less<>> read_;
  std::map<std::string, uint64_t> hashes_;  // by name, so that the order of reading is no matter
  uint64_t num_parameters_ = 0;
  std::vector<std::byte> buffer_;  // windows
  std::vector<float> stage_;       // of rows on their way to packing
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_WEIGHT_READER_H_
