// Reads the tensors of a checkpoint, one by one, into packed weights and f32 vectors.
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

#include "backends/checkpoint/checkpoint.h"
#include "backends/checkpoint/load_options.h"
#include "backends/packing/packed_cache.h"
#include "backends/spec/weight_source.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Visits a checkpoint's tensors in the order in which a model names them and gives each tensor the
// next block of the model's memory. So every pass over a model has the same blocks.
//
//   kCheck  checks names, shapes and types and returns empty weights, so that a wrong checkpoint
//           is refused before gigabytes are read. Afterwards plan() has all blocks.
//   kPack   reads each tensor once, in windows of some MiB; packs or converts each window, and
//           hashes it.
//   kPlace  reads nothing: the memory already holds the contents of a file of packed weights.
//
// Throws BackendError as LoadWeights does. Used by one thread.
class WeightReader final : public WeightSource {
 public:
  enum class Mode { kCheck, kPack, kPlace };

  // Borrows everything until it is destroyed. `memory` is zeroed (kPack) and the device's.
  WeightReader(Mode mode, const Checkpoint& checkpoint, const LoadOptions& options,
               const OpTable& ops, const Executor& executor, Device& device,
               std::byte* memory = nullptr);

  // The type of the result is the type that the options ask for. If they ask for none, it is the
  // parts' own type: the type of their groups, or of their elements. If the parts have different
  // types, it is int8 if all of them have groups, else f32. Groups that the result can hold are
  // packed as they are.
  PackedWeight Projection(const std::vector<WeightPart>& parts, int64_t k) override;
  std::pair<PackedWeight, PackedWeight> Pair(const WeightPart& first, const WeightPart& second,
                                             int64_t k) override;
  std::vector<PackedWeight> Alike(const std::vector<WeightPart>& parts, int64_t k) override;
  PackedWeight Exact(const std::vector<WeightPart>& parts, int64_t k) override;
  const float* Vector(const std::vector<WeightPart>& parts, float plus) override;
  Matrix Table(std::string_view name, int64_t rows, int64_t cols) override;
  const float* Constants(std::span<const float> values) override;
  // LS_INVALID_ARGUMENT: the two differ.
  void RequireCopy(std::string_view name, std::string_view original) override;

  // In kCheck: refuses the first tensor that no call has named, unless it is known to be harmless,
  // begins with one of `ignored`, or is a bias of zeros that fills a place (IsFillingBias).
  void RefuseUnread(std::span<const std::string_view> ignored);

  // After kCheck: all blocks.
  const PackedWeightsPlan& plan() const { return plan_; }
  // After kPack: over all tensors.
  WeightTotals totals() const;

 private:
  // The parts of a recipe, such as " | name rows | name rows". For a part that is not a whole
  // tensor, or is reordered or computed, the text says so. Rows of zeros have an empty name.
  std::string Names(const std::vector<WeightPart>& parts) const;
  // Whether a tensor that is not read is a bias of zeros beside a computed matrix that is read.
  // AutoGPTQ writes such biases, which change nothing. Reads the bias.
  bool IsFillingBias(const Tensor& tensor);
  // Reads rows [first, first + rows) as groups. LS_INVALID_ARGUMENT: a scale is not finite. A group
  // that was made of numbers that int8 does not hold has such a scale, too.
  void ReadGroups(const Tensor& tensor, int64_t first, int64_t rows, std::span<std::byte> to);
  // Takes the next block, of `bytes` bytes; `recipe` says how it is made. Returns its address. In
  // kPack, calls fill(destination) with zeroed host memory.
  template <typename Fill>
  std::byte* Block(const std::string& recipe, size_t bytes, const Fill& fill);
  // The tensor of a part whose rows have k numbers. Checks its shape.
  const Tensor& TensorOf(const WeightPart& part, int64_t k) const;
  // The type in which parts [rows, k] are packed.
  DType TypeOf(const std::vector<WeightPart>& parts, int64_t k) const;
  PackedWeight Packed(const std::vector<WeightPart>& parts, int64_t k, DType type);
  // Elements [first, first + count) of a tensor, at `data`: whole rows, aligned. If `type` is int8
  // or int4, `data` has WeightGroups.
  struct Window {
    const Tensor& tensor;
    DType type;
    int64_t row;        // elements of a row
    int64_t row_bytes;  // at `data`
    int64_t first;
    int64_t count;
    const std::byte* data;

    // REQUIRES, of groups: a row begins with the element.
    const std::byte* At(int64_t element) const {
      const int64_t distance = element - first;
      return data + (IsQuantised(type) ? distance / row * row_bytes
                                       : distance * static_cast<int64_t>(SizeOf(type)));
    }
  };
  // Reads a part, whose rows have `row` elements and which the model stores as `type`. Calls
  // take(window) for windows of the tensor's elements in order, and hashes them.
  template <typename Take>
  void ReadPart(const WeightPart& part, int64_t row, DType type, const Take& take);
  // Reads a whole part as f32, in its stored order.
  void ReadNumbers(const WeightPart& part, int64_t row, std::byte* destination);
  // Packs rows [first, first + rows) of a window's tensor into the weight, from row `first_row` on.
  void Pack(const Window& window, int64_t first, int64_t rows, int64_t first_row,
            const PackedWeight& weight, void* destination);
  // Calls scan(first, count) for pieces of elements [begin, begin + count) of a tensor on all
  // threads. `scan` returns the element that `type` cannot hold (LS_INVALID_ARGUMENT), or -1.
  template <typename Scan>
  void ScanElements(const Window& window, int64_t begin, int64_t count, DType type,
                    const Scan& scan);
  // Converts elements [begin, begin + count) of a tensor to `type`. LS_INVALID_ARGUMENT: `type`
  // cannot hold a number.
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
  std::map<std::string, uint64_t> hashes_;  // by name, so that the order of reading does not matter
  uint64_t num_parameters_ = 0;
  std::vector<std::byte> buffer_;  // windows
  std::vector<float> stage_;       // rows before packing
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_WEIGHT_READER_H_
