// The stored parts of one quantised projection, checked.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_MODULE_PARTS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_MODULE_PARTS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/checkpoint/checkpoint.h"
#include "backends/checkpoint/quantised/stored_matrix.h"

namespace longstream {

// Finds the parts X.qweight, X.scales, ... of a projection X. Borrows the checkpoint.
class ModuleParts {
 public:
  ModuleParts(const Checkpoint& checkpoint, std::string module)
      : checkpoint_(checkpoint), module_(std::move(module)) {}

  std::string Name(std::string_view part) const { return module_ + "." + std::string(part); }
  // The part, if the checkpoint stores it.
  std::optional<StoredPart> Find(std::string_view part) const;
  // The part. LS_INVALID_ARGUMENT: it is missing, has none of the types, has not `rank`
  // dimensions, or an extent is not from 1 to 2^40.
  StoredPart Get(std::string_view part, std::initializer_list<std::string_view> types,
                 size_t rank) const;

  // Throws LS_INVALID_ARGUMENT: "FILE: tensor X.part `problem`".
  [[noreturn]] static void Refuse(const StoredPart& part, const std::string& problem);

  // The scales of n outputs and `groups` groups: [n, groups], or its transpose if `by_column`; one
  // per output; or a single one. Of float blocks, n counts blocks, each of `row_block` outputs.
  ScaleMatrix Scales(std::string_view part, int64_t n, int64_t groups, bool by_column,
                     int64_t row_block = 1) const;

  // The group of each of k inputs, from a part of I32. Empty: there is no such part, or each run of
  // group_size inputs is a group. LS_INVALID_ARGUMENT: a group is not in [0, groups).
  std::vector<int32_t> GroupOf(std::string_view part, int64_t k, int64_t group_size,
                               int64_t groups) const;

  // The two numbers of a part of I64 or I32. LS_INVALID_ARGUMENT: one is not from 1 to 2^40.
  std::pair<int64_t, int64_t> Shape(std::string_view part) const;

  // The names of those parts that the checkpoint has.
  std::vector<std::string> Present(std::span<const std::string_view> parts) const;

 private:
  const Checkpoint& checkpoint_;
  std::string module_;
};

// Groups of k inputs.
constexpr int64_t GroupsFor(int64_t k, int64_t group_size) {
  return (k + group_size - 1) / group_size;
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_MODULE_PARTS_H_
