// Finds and checks the stored parts of projections.
#include "backends/checkpoint/quantised/module_parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 40;

// All bytes of a part.
std::vector<std::byte> BytesOf(const StoredPart& part) {
  std::vector<std::byte> bytes(part.tensor->num_bytes);
  part.file->Read(part.tensor->offset, bytes, Executor());
  return bytes;
}

bool HasShape(const StoredPart& part, std::initializer_list<int64_t> shape) {
  return std::equal(shape.begin(), shape.end(), part.tensor->shape.begin(),
                    part.tensor->shape.end());
}

}  // namespace

std::optional<StoredPart> ModuleParts::Find(std::string_view part) const {
  return checkpoint_.FindStored(Name(part));
}

StoredPart ModuleParts::Get(std::string_view part, std::initializer_list<std::string_view> types,
                            size_t rank) const {
  const std::optional<StoredPart> found = Find(part);
  if (!found) {
    throw BackendError(LS_INVALID_ARGUMENT, checkpoint_.directory() + ": tensor " +
                                                Quoted(Name(part)) +
                                                " is missing, though other parts of the quantised "
                                                "weight are there");
  }
  if (std::find(types.begin(), types.end(), found->tensor->type_name) == types.end()) {
    std::string names;
    for (const std::string_view type : types)
      names.append(names.empty() ? "" : " or ").append(type);
    Refuse(*found, "must be " + names + ", found " + found->tensor->type_name);
  }
  if (found->tensor->shape.size() != rank) {
    Refuse(*found, "must have " + std::to_string(rank) + " dimensions, found the shape " +
                       ShapeText(found->tensor->shape));
  }
  for (const int64_t extent : found->tensor->shape) {
    if (extent >= 1 && extent <= kMostExtent) continue;
    Refuse(*found, "must have extents from 1 to " + std::to_string(kMostExtent) +
                       ", found the shape " + ShapeText(found->tensor->shape));
  }
  return *found;
}

void ModuleParts::Refuse(const StoredPart& part, const std::string& problem) {
  throw BackendError(LS_INVALID_ARGUMENT, PartText(part) + " " + problem);
}

ScaleMatrix ModuleParts::Scales(std::string_view part, int64_t n, int64_t groups, bool by_column,
                                int64_t row_block) const {
  const std::optional<StoredPart> found = Find(part);
  const size_t rank = found ? found->tensor->shape.size() : 2;
  const StoredPart stored = Get(part, {"F16", "BF16", "F32"}, std::min<size_t>(rank, 2));
  const auto bytes = static_cast<int64_t>(SizeOf(*stored.tensor->type));
  const bool is_matrix = by_column ? HasShape(stored, {groups, n}) : HasShape(stored, {n, groups});
  if (is_matrix || (groups == 1 && HasShape(stored, {n}))) {
    return {StoredMatrix(stored, n, groups, bytes, by_column), row_block};
  }
  const bool is_single = HasShape(stored, {}) || HasShape(stored, {1}) || HasShape(stored, {1, 1});
  if (groups == 1 && is_single) {
    // One row of scales for all outputs.
    return {StoredMatrix(stored, 1, 1, bytes, /*by_column=*/false), INT64_MAX};
  }
  const std::array<int64_t, 2> expected = by_column ? std::array{groups, n} : std::array{n, groups};
  Refuse(stored, "must have the shape " + ShapeText(expected) + ", found " +
                     ShapeText(stored.tensor->shape));
}

std::vector<int32_t> ModuleParts::GroupOf(std::string_view part, int64_t k, int64_t group_size,
                                          int64_t groups) const {
  if (!Find(part)) return {};
  const StoredPart stored = Get(part, {"I32"}, 1);
  if (stored.tensor->shape.front() != k) {
    Refuse(stored, "must have the shape " + ShapeText(std::array{k}) + ", found " +
                       ShapeText(stored.tensor->shape));
  }
  std::vector<int32_t> group_of(static_cast<size_t>(k));
  const std::vector<std::byte> bytes = BytesOf(stored);
  std::memcpy(group_of.data(), bytes.data(), bytes.size());
  bool runs = true;
  for (int64_t i = 0; i < k; ++i) {
    const int32_t group = group_of[static_cast<size_t>(i)];
    if (group < 0 || group >= groups) {
      Refuse(stored, "has the group " + std::to_string(group) + " for input " + std::to_string(i) +
                         ", expected one of 0 to " + std::to_string(groups - 1));
    }
    runs = runs && group == i / group_size;
  }
  return runs ? std::vector<int32_t>() : group_of;
}

std::pair<int64_t, int64_t> ModuleParts::Shape(std::string_view part) const {
  const StoredPart stored = Get(part, {"I64", "I32"}, 1);
  if (stored.tensor->shape.front() != 2) {
    Refuse(stored, "must have the shape [2], found " + ShapeText(stored.tensor->shape));
  }
  const std::vector<std::byte> bytes = BytesOf(stored);
  std::array<int64_t, 2> shape{};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (stored.tensor->type_name == "I64") {
      std::memcpy(&shape[i], bytes.data() + i * sizeof(int64_t), sizeof(int64_t));
    } else {
      int32_t extent;
      std::memcpy(&extent, bytes.data() + i * sizeof(extent), sizeof(extent));
      shape[i] = extent;
    }
    if (shape[i] < 1 || shape[i] > kMostExtent) {
      Refuse(stored, "must have numbers from 1 to " + std::to_string(kMostExtent) + ", found " +
                         std::to_string(shape[i]));
    }
  }
  return {shape[0], shape[1]};
}

std::vector<std::string> ModuleParts::Present(std::span<const std::string_view> parts) const {
  std::vector<std::string> names;
  for (const std::string_view part : parts) {
    if (Find(part)) names.push_back(Name(part));
  }
  return names;
}

}  // namespace longstream
