// The rows that a projection multiplies with its weight. They are normalised and gated once for all
// outputs.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_PREPARED_ROWS_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_PREPARED_ROWS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/core/matrix.h"
#include "kernels/core/quantise.h"
#include "kernels/core/stream.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The type of rows for a bf16 weight. If the set has a bf16 dot product or tiles, it is bf16, else
// it is f32, with numbers that are rounded to bf16. Rows for f32 and f16 weights are f32.
#if defined(__AVX512BF16__) || defined(LONGSTREAM_TILES)
using BF16Activation = BF16;
#else
using BF16Activation = float;
#endif

// 32 inputs of a row for an int8 or int4 weight: h[i] is about scale * values[i] (core/matrix.h).
struct RowGroup {
  int8_t values[kGroupInputs];
  float scale;
  int32_t sum;  // the sum of the values
};

// Prepared rows. An element is a RowGroup if the weight is int8 or int4. If the weight is bf16,
// zeros follow the last number of a row (PadRow).
struct PreparedRows {
  const void* data = nullptr;
  int64_t stride = 0;  // in elements

  template <typename T>
  LONGSTREAM_INLINE const T* row(int64_t r) const {
    return static_cast<const T*>(data) + r * stride;
  }
};

// Prepares the first num_rows rows of `in` for its weight, in the stream's workspace
// (LinearWorkspace). If the rows are already prepared or need no change, returns them as they are.
// Fails the stream if the workspace is too small.
PreparedRows PrepareRows(Stream& stream, const LinearInput& in, int64_t num_rows);

// Prepares 32 values for an int8 or int4 weight.
void PrepareGroup(const float* values, RowGroup* group);

// A number as an input for a bf16 weight, before it is stored. If it is stored as bf16, the store
// rounds it.
LONGSTREAM_INLINE F32x16 RoundedInput(const F32x16& value) {
  return std::is_same_v<BF16Activation, BF16> ? value : RoundToBF16(value);
}

// Elements (BF16Activation, f32 or RowGroup) from one prepared row of k inputs to the next. Rows of
// bf16 are an odd number of cache lines apart, so that the same inputs of many rows are not all in
// one set of a cache. If k is odd, there is room for the zero that follows the last number.
LONGSTREAM_INLINE int64_t PreparedStride(DType weight_type, int64_t k) {
  if (IsQuantised(weight_type)) return NumGroups(k);
  constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(BF16));
  const int64_t lines = (k + kLine - 1) / kLine;
  const bool as_bf16 = weight_type == DType::kBF16 && std::is_same_v<BF16Activation, BF16>;
  return (as_bf16 ? lines | 1 : lines) * kLine;
}

// Writes the zeros that follow the last number of a row of k inputs for a bf16 weight. A dot
// product takes pairs of inputs. A tile takes 32 of them, which are a cache line; so the zeros go
// on to the end of the line.
template <typename T>
LONGSTREAM_INLINE void PadRow(int64_t k, T* h) {
  constexpr int64_t kMultiple = kHasTiles ? kLineBytes / static_cast<int64_t>(sizeof(BF16)) : 2;
  for (int64_t i = k; i % kMultiple != 0; ++i) h[i] = T{};
}

// Writes the output of a product. It is f32 or, if there is a reader, it has the bits that
// PrepareRows would give the rows for it. So nobody writes the rows as f32 and reads them again to
// prepare them. Each task has a PreparedOut of its own. Two tasks must not write columns of one
// group of 32.
class PreparedOut {
 public:
  explicit PreparedOut(const LinearOutput& out)
      : PreparedOut(out.rows(), out.reader().data == nullptr ? DType::kF32 : out.reader().type) {}
  // type: that of the weight that reads the rows.
  PreparedOut(const Matrix& out, DType type)
      : out_(out), type_(type), stride_(PreparedStride(type, out.cols)) {}

  // Writes columns [c, c + count) of a row. count is 16, or less at the end of the row; c is a
  // multiple of 16. The second 16 of each 32 columns must be written right after the first 16.
  LONGSTREAM_INLINE void Put(int64_t row, int64_t c, const F32x16& value, int64_t count) {
    if (type_ == DType::kBF16) {
      BF16Activation* h = static_cast<BF16Activation*>(out_.data) + row * stride_;
      PutVector(RoundedInput(value), h + c, count);
      if (c + count == out_.cols) PadRow(out_.cols, h);
    } else if (IsQuantised(type_)) {
      PutPart(row, c, value, count);
    } else {
      PutVector(value, out_.f32_row(row) + c, count);
    }
  }

  // Prefetches the cache lines that Put will write for columns [c, c + 32) of a row, or for those
  // up to the row's end. c is a multiple of 32.
  LONGSTREAM_INLINE void AskFor(int64_t row, int64_t c) const {
    static_assert(sizeof(RowGroup) <= kLineBytes);
    if (IsQuantised(type_)) {
      const RowGroup* group = static_cast<RowGroup*>(out_.data) + row * stride_ + c / kGroupInputs;
      PrefetchToWrite(group);
      PrefetchToWrite(&group->sum);  // a group may lie in two lines
      return;
    }
    for (int64_t i = c; i < c + kGroupInputs && i < out_.cols; i += kLanes) {
      if (type_ == DType::kBF16) {
        PrefetchToWrite(static_cast<BF16Activation*>(out_.data) + row * stride_ + i);
      } else {
        PrefetchToWrite(out_.f32_row(row) + i);
      }
    }
  }

 private:
  template <typename T>
  LONGSTREAM_INLINE static void PutVector(const F32x16& value, T* to, int64_t count) {
    if (count == kLanes) {
      Store(value, to);
    } else {
      StorePartial(value, to, count);
    }
  }

  LONGSTREAM_INLINE void PutPart(int64_t row, int64_t c, const F32x16& value, int64_t count) {
    const int64_t in_group = c % kGroupInputs;
    if (in_group == 0) Store(Zero(), group_ + kLanes);
    if (count < kLanes) Store(Zero(), group_ + in_group);
    PutVector(value, group_ + in_group, count);
    if (in_group != 0 || c + kLanes >= out_.cols) {
      PrepareGroup(group_, static_cast<RowGroup*>(out_.data) + row * stride_ + c / kGroupInputs);
    }
  }

  const Matrix out_;
  const DType type_;
  const int64_t stride_;
  alignas(64) float group_[kGroupInputs];
};

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_PREPARED_ROWS_H_
