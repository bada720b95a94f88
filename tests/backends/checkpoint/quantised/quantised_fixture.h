// A checkpoint of one quantised projection "m", whose parts a test writes.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_QUANTISED_QUANTISED_FIXTURE_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_QUANTISED_QUANTISED_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/checkpoint/quantised/open_checkpoint.h"
#include "kernels/core/dtype.h"
#include "kernels/core/quantise.h"
#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/temporary_directory.h"

namespace longstream {

template <typename Element>
std::string BytesOf(const std::vector<Element>& elements) {
  std::string bytes(elements.size() * sizeof(Element), '\0');
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// Numbers of a linear congruential generator: the same on every machine.
class Draws {
 public:
  // A number in [0, below).
  uint32_t Below(uint32_t below) {
    state_ = state_ * 1664525 + 1013904223;  // Numerical Recipes
    return (state_ >> 8) % below;
  }

 private:
  uint32_t state_ = 1;
};

// A matrix of integers [rows, columns].
struct Codes {
  int64_t rows, columns;
  std::vector<int> values;

  Codes(int64_t r, int64_t c, const std::function<int(int64_t, int64_t)>& value)
      : rows(r), columns(c) {
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < c; ++j) values.push_back(value(i, j));
    }
  }
  int at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

// Words of 32 bits with `per_word` codes each: word (row, column) has code i = at(row, column, i),
// which is 0 beyond the matrix, at bits [bits * i, bits * i + bits).
template <typename At>
std::string PackWords(int64_t rows, int64_t columns, int bits, const At& at) {
  std::vector<uint32_t> words;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      uint32_t word = 0;
      for (int i = 0; i < 32 / bits; ++i) {
        word |= static_cast<uint32_t>(at(row, column, i) & ((1 << bits) - 1)) << (bits * i);
      }
      words.push_back(word);
    }
  }
  return BytesOf(words);
}

class QuantisedFixture : public ::testing::Test {
 protected:
  void Set(const std::string& part, const std::string& type, std::vector<int64_t> shape,
           std::string bytes) {
    const std::string name = "m." + part;
    parts_[name] = {name, type, std::move(shape), std::move(bytes)};
  }
  void SetScales(const std::string& part, const std::string& type, std::vector<int64_t> shape,
                 const std::vector<float>& scales) {
    if (type == "F32") return Set(part, type, std::move(shape), BytesOf(scales));
    std::vector<uint16_t> bits;
    for (const float scale : scales) {
      bits.push_back(type == "F16" ? ToF16(scale).bits : ToBF16(scale).bits);
    }
    Set(part, type, std::move(shape), BytesOf(bits));
  }

  Checkpoint Open(const std::string& config) const {
    std::vector<TensorSource> tensors;
    for (const auto& [name, tensor] : parts_) tensors.push_back(tensor);
    directory_.Write("model.safetensors", SafetensorsBytes(tensors));
    return OpenCheckpoint(directory_.string(), Config(config, "m/config.json"));
  }

  // Rows [first, first + rows) of m.weight as f32.
  static std::vector<float> Rows(const Checkpoint& checkpoint, int64_t first, int64_t rows,
                                 const Executor& executor = Executor()) {
    const Tensor& tensor = *checkpoint.Find("m.weight");
    const auto row_bytes = tensor.num_bytes / static_cast<uint64_t>(tensor.shape[0]);
    std::vector<std::byte> bytes(static_cast<size_t>(rows) * row_bytes);
    checkpoint.Read(tensor, static_cast<uint64_t>(first) * row_bytes, bytes, executor);
    std::vector<float> numbers(bytes.size() / SizeOf(*tensor.type));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const std::byte* place = bytes.data() + i * SizeOf(*tensor.type);
      if (tensor.type == DType::kF32) {
        std::memcpy(&numbers[i], place, sizeof(float));
        continue;
      }
      uint16_t bits;
      std::memcpy(&bits, place, sizeof(bits));
      numbers[i] = tensor.type == DType::kF16 ? ToF32(F16{bits}) : ToF32(BF16{bits});
    }
    return numbers;
  }

  // All of m.weight, read in windows of `rows_at_once` rows.
  static std::vector<float> Weight(const Checkpoint& checkpoint, int64_t rows_at_once = 1000,
                                   const Executor& executor = Executor()) {
    const int64_t n = checkpoint.Find("m.weight")->shape[0];
    std::vector<float> numbers;
    for (int64_t first = 0; first < n; first += rows_at_once) {
      const std::vector<float> rows =
          Rows(checkpoint, first, std::min(rows_at_once, n - first), executor);
      numbers.insert(numbers.end(), rows.begin(), rows.end());
    }
    return numbers;
  }

  static std::vector<WeightGroup> Groups(const Checkpoint& checkpoint, int64_t first, int64_t rows,
                                         const Executor& executor = Executor()) {
    const Tensor& tensor = *checkpoint.Find("m.weight");
    std::vector<WeightGroup> groups(static_cast<size_t>(rows * NumGroups(tensor.shape[1])));
    checkpoint.ReadGroups(tensor, first, rows, groups.data(), executor);
    return groups;
  }

  std::string path() const { return directory_.string() + "/model.safetensors"; }

  // Opens the checkpoint and reads m.weight as rows and as groups; one of them must fail.
  void ExpectRefused(const std::string& config, const std::string& problem) const {
    ExpectError(LS_INVALID_ARGUMENT, path() + ": tensor " + problem, [&] {
      const Checkpoint checkpoint = Open(config);
      const Tensor& tensor = *checkpoint.Find("m.weight");
      if (tensor.groups) Groups(checkpoint, 0, tensor.shape[0]);
      Weight(checkpoint);
    });
  }

  std::map<std::string, TensorSource> parts_;  // by name
  TemporaryDirectory directory_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_QUANTISED_QUANTISED_FIXTURE_H_
