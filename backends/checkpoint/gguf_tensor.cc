// Computes tensors from those of a GGUF file, row by row.
#include "backends/checkpoint/gguf_tensor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backends/checkpoint/gguf_blocks.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

Tensor DescribedAs(const GgufTensor& stored, const GgufConversion& conversion,
                   const std::string& path) {
  Tensor tensor;
  tensor.name = conversion.name;
  tensor.type_name = stored.type->name;
  tensor.shape = stored.shape;
  tensor.type = PlainTypeOf(*stored.type);
  if (conversion.plus_one) tensor.type = DType::kF32;
  if (tensor.type) return tensor;
  const GgufBlocks* const blocks = FindGgufBlocks(stored.type->name);
  if (blocks == nullptr) {
    throw BackendError(LS_UNIMPLEMENTED,
                       path + ": tensor " + Quoted(stored.name) + " has the type " +
                           std::string(stored.type->name) +
                           ", expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to "
                           "Q6_K, IQ4_NL or IQ4_XS");
  }
  tensor.type = DType::kF32;
  if (tensor.shape.size() == 2) tensor.groups = blocks->groups;
  return tensor;
}

class GgufRows final : public ComputedTensor {
 public:
  GgufRows(const TensorFile& file, const GgufTensor& stored, const GgufConversion& conversion)
      : ComputedTensor(DescribedAs(stored, conversion, file.path()), file.path()),
        file_(file),
        name_(stored.name),
        offset_(stored.offset),
        plain_(PlainTypeOf(*stored.type)),
        blocks_(FindGgufBlocks(stored.type->name)),
        plus_one_(conversion.plus_one) {
    const auto rows = static_cast<uint64_t>(stored.shape.empty() ? 1 : stored.shape.front());
    row_bytes_ = stored.num_bytes / rows;
    for (size_t i = 1; i < stored.shape.size(); ++i) columns_ *= stored.shape[i];
    if (!plain_ && stored.shape.size() < 2) Invalid("is a vector of blocks, expected a matrix");
    if (plus_one_ && plain_ != DType::kF32) Invalid("is a norm, expected the type F32");
    if (conversion.interleaved_heads == 0) return;
    head_rows_ = static_cast<int64_t>(rows) / conversion.interleaved_heads;
    if (head_rows_ * conversion.interleaved_heads != static_cast<int64_t>(rows) ||
        head_rows_ % 2 != 0) {
      Invalid("must have an even number of rows for each of " +
              std::to_string(conversion.interleaved_heads) + " heads, found " +
              ShapeText(stored.shape));
    }
  }

  const std::string& path() const override { return file_.path(); }

  std::string recipe() const override {
    std::string text = "of " + tensor().type_name;
    if (head_rows_ > 0) text += ", interleaved in heads of " + std::to_string(head_rows_);
    return plus_one_ ? text + ", less 1" : text;
  }

  void ReadRows(int64_t first, int64_t rows, std::byte* to,
                const Executor& executor) const override {
    const int64_t to_bytes = columns_ * static_cast<int64_t>(SizeOf(*tensor().type));
    ForEachRow(first, rows, executor, [&](const std::byte* stored, int64_t row) {
      Elements(stored, to + row * to_bytes);
    });
  }

  void ReadGroups(int64_t first, int64_t rows, WeightGroup* to,
                  const Executor& executor) const override {
    const int64_t blocks = columns_ / blocks_->elements;
    const int64_t groups = columns_ / kGroupInputs;
    ForEachRow(first, rows, executor, [&](const std::byte* stored, int64_t row) {
      GroupsOfBlocks(*blocks_, stored, blocks, to + row * groups);
    });
  }

 private:
  [[noreturn]] void Invalid(const std::string& problem) const {
    throw BackendError(LS_INVALID_ARGUMENT,
                       file_.path() + ": tensor " + Quoted(name_) + " " + problem);
  }

  // The stored row that becomes this row.
  int64_t StoredRow(int64_t row) const {
    if (head_rows_ == 0) return row;
    const int64_t half = head_rows_ / 2;
    const int64_t in_head = row % head_rows_;
    const int64_t stored = in_head < half ? 2 * in_head : 2 * (in_head - half) + 1;
    return row - in_head + stored;
  }

  // Reads the stored rows of rows [first, first + rows), and calls take(stored bytes, row - first)
  // for each row, on all threads. Where rows are interleaved, reads whole heads.
  template <typename Take>
  void ForEachRow(int64_t first, int64_t rows, const Executor& executor, const Take& take) const {
    const int64_t unit = std::max<int64_t>(head_rows_, 1);
    const int64_t begin = first / unit * unit;
    const int64_t end = (first + rows + unit - 1) / unit * unit;
    std::vector<std::byte> stored(static_cast<size_t>(end - begin) * row_bytes_);
    file_.Read(offset_ + static_cast<uint64_t>(begin) * row_bytes_, stored, executor);
    constexpr int64_t kTaskElements = 1 << 14;
    const int64_t rows_of_task = std::max<int64_t>(kTaskElements / columns_, 1);
    const int64_t tasks = (rows + rows_of_task - 1) / rows_of_task;
    ParallelFor(executor, static_cast<uint32_t>(tasks), [&](uint32_t task) {
      const int64_t last = std::min((task + int64_t{1}) * rows_of_task, rows);
      for (int64_t row = task * rows_of_task; row < last; ++row) {
        const int64_t at = StoredRow(first + row) - begin;
        take(stored.data() + static_cast<uint64_t>(at) * row_bytes_, row);
      }
    });
  }

  void Elements(const std::byte* stored, std::byte* to) const {
    if (plain_) {
      std::memcpy(to, stored, row_bytes_);
      if (!plus_one_) return;
      for (int64_t i = 0; i < columns_; ++i) {
        float number;
        std::memcpy(&number, to + i * static_cast<int64_t>(sizeof(number)), sizeof(number));
        number -= 1.0f;
        std::memcpy(to + i * static_cast<int64_t>(sizeof(number)), &number, sizeof(number));
      }
      return;
    }
    for (int64_t block = 0; block < columns_ / blocks_->elements; ++block) {
      blocks_->numbers(stored + block * blocks_->bytes,
                       reinterpret_cast<float*>(to) + block * blocks_->elements);
    }
  }

  const TensorFile& file_;
  const std::string name_;  // in the file
  const uint64_t offset_;
  const std::optional<DType> plain_;
  const GgufBlocks* const blocks_;  // not nullptr if plain_ is not set
  const bool plus_one_;
  uint64_t row_bytes_ = 0;  // in the file
  int64_t columns_ = 1;
  int64_t head_rows_ = 0;  // 0: rows are not interleaved
};

}  // namespace

std::optional<DType> PlainTypeOf(const GgufTensorType& type) {
  if (type.name == "F32") return DType::kF32;
  if (type.name == "F16") return DType::kF16;
  if (type.name == "BF16") return DType::kBF16;
  return std::nullopt;
}

std::unique_ptr<ComputedTensor> MakeGgufTensor(const TensorFile& file, const GgufTensor& stored,
                                               const GgufConversion& conversion) {
  return std::make_unique<GgufRows>(file, stored, conversion);
}

}  // namespace longstream
