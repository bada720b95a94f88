// The weight of a projection that is stored as floats of 8 bits with scales.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_FLOAT8_WEIGHT_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_FLOAT8_WEIGHT_H_

#include <cstdint>
#include <string>

#include "backends/checkpoint/computed_tensor.h"
#include "backends/checkpoint/quantised/stored_matrix.h"

namespace longstream {

// The stored parts of a weight W [n, k]:
//   W[j, i] = codes[j, i] * scales[j / row_block, i / column_block]
struct Float8WeightParts {
  std::string name;  // of W
  std::string format;
  int64_t n = 0;
  int64_t k = 0;
  StoredPart codes;    // [n, k] of F8_E4M3: 4 bits of exponent, 3 of fraction, no infinity
  ScaleMatrix scales;  // a column per block of inputs
  int64_t column_block = 0;
  DType decoded = DType::kBF16;  // the type of the elements; the product is rounded once
};

// The number that an F8_E4M3 code stands for; NaN for the codes 0x7f and 0xff.
float FromFloat8(uint8_t code);

class Float8Weight final : public ComputedTensor {
 public:
  explicit Float8Weight(Float8WeightParts parts);

  const std::string& path() const override { return parts_.codes.file->path(); }
  std::string recipe() const override;
  void ReadRows(int64_t first, int64_t rows, std::byte* to,
                const Executor& executor) const override;

 private:
  Float8WeightParts parts_;
  StoredMatrix codes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_FLOAT8_WEIGHT_H_
