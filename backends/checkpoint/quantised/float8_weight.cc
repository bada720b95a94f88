// Decodes weights that are stored as floats of 8 bits.
#include "backends/checkpoint/quantised/float8_weight.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "backends/checkpoint/quantised/decoded_rows.h"

namespace longstream {
namespace {

Tensor TensorOf(const Float8WeightParts& parts) {
  Tensor tensor;
  tensor.name = parts.name;
  tensor.type_name = parts.format;
  tensor.type = parts.decoded;
  tensor.shape = {parts.n, parts.k};
  return tensor;
}

const std::array<float, 256>& Float8Table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> numbers{};
    for (int code = 0; code < 256; ++code) {
      numbers[static_cast<size_t>(code)] = FromFloat8(static_cast<uint8_t>(code));
    }
    return numbers;
  }();
  return table;
}

}  // namespace

float FromFloat8(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return code >> 7 != 0 ? -magnitude : magnitude;
}

Float8Weight::Float8Weight(Float8WeightParts parts)
    : ComputedTensor(TensorOf(parts), parts.codes.file->path()),
      parts_(std::move(parts)),
      codes_(parts_.codes, parts_.n, parts_.k, 1, /*by_column=*/false) {}

std::string Float8Weight::recipe() const {
  return "decoded from " + parts_.format + " with a scale for " +
         std::to_string(parts_.scales.row_block()) + " outputs and " +
         std::to_string(parts_.column_block) + " inputs, as " + NameOf(parts_.decoded) +
         ", decoder " + std::to_string(kDecoderVersion);
}

void Float8Weight::ReadRows(int64_t first, int64_t rows, std::byte* to,
                            const Executor& executor) const {
  const StoredMatrix::Window codes = codes_.Read(first, rows, executor);
  const ScaleMatrix::Window scales =
      parts_.scales.Read(first, rows, LargestScale(parts_.decoded), executor);
  const std::array<float, 256>& table = Float8Table();
  const int64_t row_bytes = parts_.k * static_cast<int64_t>(SizeOf(parts_.decoded));
  const std::vector<float> scratch(static_cast<size_t>(parts_.k));
  const auto decode = [&](int64_t begin, int64_t end, std::vector<float>& numbers) {
    for (int64_t row = begin; row < end; ++row) {
      const std::byte* code = codes.words.data() + (row - first) * parts_.k;
      const float* row_scales = scales.Row(row);
      for (int64_t i = 0; i < parts_.k; ++i) {
        numbers[static_cast<size_t>(i)] =
            table[static_cast<uint8_t>(code[i])] * row_scales[i / parts_.column_block];
      }
      StoreRow(numbers, parts_.decoded, to + (row - first) * row_bytes);
    }
  };
  ForEachRowBlock(first, rows, executor, scratch, decode);
}

}  // namespace longstream
