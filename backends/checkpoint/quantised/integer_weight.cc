// Decodes weights that are stored as integers with scales.
#include "backends/checkpoint/quantised/integer_weight.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/checkpoint/quantised/decoded_rows.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

// The largest scale of a group: times -128 it is still a weight of int8.
constexpr float kLargestGroupScale = 32768.0f;
constexpr int kLargestInt8 = 127;

// The zero point of symmetric codes.
constexpr int MiddleOf(int bits) { return 1 << (bits - 1); }

// The type of groups that hold the integers of a weight, if there is one.
std::optional<DType> GroupsOf(const IntegerWeightParts& parts) {
  const bool runs = parts.group_of.empty() &&
                    (parts.group_size % kGroupInputs == 0 || parts.group_size >= parts.k);
  if (!runs) return std::nullopt;
  if (parts.bits == 4) return parts.symmetric ? DType::kI4 : DType::kI8;
  return parts.symmetric ? std::optional(DType::kI8) : std::nullopt;
}

Tensor TensorOf(const IntegerWeightParts& parts) {
  Tensor tensor;
  tensor.name = parts.name;
  tensor.type_name = parts.format;
  tensor.groups = GroupsOf(parts);
  tensor.type = tensor.groups ? DType::kF32 : parts.decoded;
  tensor.shape = {parts.n, parts.k};
  return tensor;
}

// The group of up to 32 codes that share a zero point and a scale.
WeightGroup GroupOf(const uint8_t* codes, int64_t count, int zero, float scale) {
  WeightGroup group{};
  group.scale = ToF16(scale);
  int out_of_range = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int value = codes[i] - zero;
    group.values[i] = static_cast<int8_t>(value);
    out_of_range += value < -kLargestInt8 || value > kLargestInt8 ? 1 : 0;
  }
  if (out_of_range == 0) return group;
  std::array<float, kGroupInputs> weights{};
  for (int64_t i = 0; i < count; ++i) {
    weights[static_cast<size_t>(i)] = static_cast<float>(codes[i] - zero) * scale;
  }
  return QuantiseGroup(DType::kI8, weights.data(), count);
}

}  // namespace

struct IntegerWeight::Window {
  PackedCodes::Window codes;
  ScaleMatrix::Window scales;
  std::optional<PackedCodes::Window> zeros;
};

struct IntegerWeight::Row {
  std::vector<uint8_t> codes;  // [k]
  std::vector<uint8_t> stored_zeros;
  std::vector<int> zeros;  // [groups]
  const float* scales = nullptr;
  std::vector<float> numbers;  // [k]; empty if groups are read
};

IntegerWeight::IntegerWeight(IntegerWeightParts parts)
    : ComputedTensor(TensorOf(parts), parts.codes.part().file->path()), parts_(std::move(parts)) {}

std::string IntegerWeight::recipe() const {
  return "decoded from " + parts_.format + " of " + std::to_string(parts_.bits) +
         " bits in groups of " + std::to_string(parts_.group_size) +
         (parts_.group_of.empty() ? "" : " in the order of activations") +
         (parts_.symmetric ? ", symmetric" : "") + ", zero plus " +
         std::to_string(parts_.zero_plus) + ", as " + NameOf(*tensor().type) + ", decoder " +
         std::to_string(kDecoderVersion);
}

IntegerWeight::Window IntegerWeight::Read(int64_t first, int64_t rows, float largest_scale,
                                          const Executor& executor) const {
  Window window{parts_.codes.Read(first, rows, executor),
                parts_.scales.Read(first, rows, largest_scale, executor),
                {}};
  if (parts_.zeros) window.zeros = parts_.zeros->Read(first, rows, executor);
  return window;
}

IntegerWeight::Row IntegerWeight::EmptyRow() const {
  const auto groups = static_cast<size_t>(parts_.scales.columns());
  Row row;
  row.codes.resize(static_cast<size_t>(parts_.k));
  row.stored_zeros.resize(groups);
  row.zeros.resize(groups, MiddleOf(parts_.bits));
  return row;
}

void IntegerWeight::Unpack(const Window& window, int64_t row, Row* to) const {
  to->scales = window.scales.Row(row);
  parts_.codes.Unpack(window.codes, row, to->codes.data());
  if (!parts_.zeros) return;
  parts_.zeros->Unpack(*window.zeros, row, to->stored_zeros.data());
  for (size_t group = 0; group < to->zeros.size(); ++group) {
    to->zeros[group] = to->stored_zeros[group] + parts_.zero_plus;
  }
}

template <typename Body>
void IntegerWeight::ForEachRow(const Window& window, int64_t first, int64_t rows,
                               const Executor& executor, const Row& scratch,
                               const Body& body) const {
  ForEachRowBlock(first, rows, executor, scratch, [&](int64_t begin, int64_t end, Row& unpacked) {
    for (int64_t row = begin; row < end; ++row) {
      Unpack(window, row, &unpacked);
      body(row, unpacked);
    }
  });
}

void IntegerWeight::ReadRows(int64_t first, int64_t rows, std::byte* to,
                             const Executor& executor) const {
  const DType type = *tensor().type;
  const Window window = Read(first, rows, LargestScale(type), executor);
  const int64_t row_bytes = parts_.k * static_cast<int64_t>(SizeOf(type));
  Row scratch = EmptyRow();
  scratch.numbers.resize(static_cast<size_t>(parts_.k));
  ForEachRow(window, first, rows, executor, scratch, [&](int64_t row, Row& unpacked) {
    const auto set = [&](size_t i, size_t group) {
      unpacked.numbers[i] =
          static_cast<float>(unpacked.codes[i] - unpacked.zeros[group]) * unpacked.scales[group];
    };
    for (int64_t begin = 0, group = 0; begin < parts_.k; begin += parts_.group_size, ++group) {
      const int64_t end = std::min(parts_.k, begin + parts_.group_size);
      for (int64_t i = begin; i < end; ++i) {
        const auto input = static_cast<size_t>(i);
        set(input, parts_.group_of.empty() ? static_cast<size_t>(group)
                                           : static_cast<size_t>(parts_.group_of[input]));
      }
    }
    StoreRow(unpacked.numbers, type, to + (row - first) * row_bytes);
  });
}

// The differences of symmetric codes fit our groups only if each zero is the middle one.
void IntegerWeight::RequireSymmetric(const Window& window, int64_t first, int64_t rows) const {
  if (!parts_.symmetric || !parts_.zeros) return;
  const int middle = MiddleOf(parts_.bits);
  Row unpacked = EmptyRow();
  for (int64_t row = first; row < first + rows; ++row) {
    parts_.zeros->Unpack(*window.zeros, row, unpacked.stored_zeros.data());
    for (size_t group = 0; group < unpacked.stored_zeros.size(); ++group) {
      const int zero = unpacked.stored_zeros[group] + parts_.zero_plus;
      if (zero == middle) continue;
      throw BackendError(LS_INVALID_ARGUMENT,
                         PartText(parts_.zeros->part()) + ": the zero point of output " +
                             std::to_string(row) + ", group " + std::to_string(group) + " is " +
                             std::to_string(zero) + ", expected " + std::to_string(middle) +
                             " because the config says that it is symmetric");
    }
  }
}

void IntegerWeight::ReadGroups(int64_t first, int64_t rows, WeightGroup* to,
                               const Executor& executor) const {
  const Window window = Read(first, rows, kLargestGroupScale, executor);
  RequireSymmetric(window, first, rows);
  const int64_t groups = NumGroups(parts_.k);
  ForEachRow(window, first, rows, executor, EmptyRow(), [&](int64_t row, const Row& unpacked) {
    WeightGroup* group = to + (row - first) * groups;
    for (int64_t begin = 0; begin < parts_.k; begin += kGroupInputs, ++group) {
      const auto stored = static_cast<size_t>(begin / parts_.group_size);
      *group = GroupOf(unpacked.codes.data() + begin, std::min(kGroupInputs, parts_.k - begin),
                       unpacked.zeros[stored], unpacked.scales[stored]);
    }
  });
}

}  // namespace longstream
