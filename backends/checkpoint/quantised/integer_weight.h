// The weight of a projection that is stored as integers with scales.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_INTEGER_WEIGHT_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_INTEGER_WEIGHT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/checkpoint/computed_tensor.h"
#include "backends/checkpoint/quantised/packed_codes.h"
#include "backends/checkpoint/quantised/stored_matrix.h"

namespace longstream {

// The stored parts of a weight W [n, k]:
//   W[j, i] = (codes[j, i] - zero[j, g]) * scales[j, g],  g = group_of[i]
struct IntegerWeightParts {
  std::string name;  // of W
  std::string format;
  int64_t n = 0;
  int64_t k = 0;
  int bits = 4;            // of the codes: 4 or 8
  bool symmetric = false;  // every zero is 2^(bits - 1)
  int64_t group_size = 0;  // inputs of a group
  // Only if the groups are not runs of group_size inputs: the group of each input, checked.
  std::vector<int32_t> group_of{};
  DType decoded = DType::kBF16;  // the type of the elements if no groups of ours hold W

  PackedCodes codes;   // [n, k]
  ScaleMatrix scales;  // a column per group
  // [n, groups]; nullopt: every zero is 2^(bits - 1).
  std::optional<PackedCodes> zeros{};
  int zero_plus = 0;  // is added to each stored zero
};

// Reads W as groups of 32 inputs where those hold the same integers:
//   int4  4 bits, symmetric
//   int8  4 bits with zeros (differences of -16 ... 15); 8 bits, symmetric
// if group_size is a multiple of 32 or covers all inputs, and the groups are runs. An F16 or BF16
// scale is then kept (a BF16 scale below 2^-17 is rounded), and an F32 scale is rounded to f16. A
// group of int8 that has a -128 is quantised again (QuantiseGroup), because our int8 has none.
// Otherwise W has elements of the type `decoded`, rounded once.
class IntegerWeight final : public ComputedTensor {
 public:
  explicit IntegerWeight(IntegerWeightParts parts);

  const std::string& path() const override { return parts_.codes.part().file->path(); }
  std::string recipe() const override;
  void ReadRows(int64_t first, int64_t rows, std::byte* to,
                const Executor& executor) const override;
  void ReadGroups(int64_t first, int64_t rows, WeightGroup* to,
                  const Executor& executor) const override;

 private:
  // The stored parts of some rows.
  struct Window;
  // One row, unpacked.
  struct Row;

  Window Read(int64_t first, int64_t rows, float largest_scale, const Executor& executor) const;
  // A row with room for what Unpack stores.
  Row EmptyRow() const;
  // REQUIRES: *to is a copy of EmptyRow(). Does not allocate.
  void Unpack(const Window& window, int64_t row, Row* to) const;
  // Calls body(row, unpacked) for rows [first, first + rows) on all threads, with copies of
  // `scratch`, which EmptyRow made.
  template <typename Body>
  void ForEachRow(const Window& window, int64_t first, int64_t rows, const Executor& executor,
                  const Row& scratch, const Body& body) const;
  void RequireSymmetric(const Window& window, int64_t first, int64_t rows) const;

  IntegerWeightParts parts_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_INTEGER_WEIGHT_H_
