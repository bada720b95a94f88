// The recurrent memory of a layer and the rows of a sequence, for tests of the linear recurrence.
#ifndef LONGSTREAM_TESTS_KERNELS_RECURRENCE_RECURRENT_MEMORY_H_
#define LONGSTREAM_TESTS_KERNELS_RECURRENCE_RECURRENT_MEMORY_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/core/batch_layout.h"
#include "tests/kernels/op_test.h"

namespace longstream {

struct RecurrenceShape {
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t key_dim;
  int32_t value_dim;
  int32_t grid;

  std::string name() const {
    return "H " + std::to_string(num_heads) + "/" + std::to_string(num_kv_heads) + " Dk " +
           std::to_string(key_dim) + " Dv " + std::to_string(value_dim) + " grid " +
           std::to_string(grid);
  }
};

// All rows of one sequence.
struct RecurrentHistory {
  RecurrentHistory(int64_t tokens, const RecurrenceShape& shape, float gate_scale, Random& random)
      : q(tokens, shape.num_heads * shape.key_dim, random),
        k(tokens, shape.num_kv_heads * shape.key_dim, random),
        v(tokens, shape.num_kv_heads * shape.value_dim, random),
        gate(tokens, shape.num_heads * shape.key_dim, random, gate_scale) {}

  OwnedMatrix q, k, v, gate;
};

// The recurrent memory of one layer. At first states are zero and rows are NaN.
class RecurrentMemory {
 public:
  RecurrentMemory(int64_t num_slots, const RecurrenceShape& shape, bool gated)
      : state_bytes_(FloatBytes(int64_t{shape.num_heads} * shape.key_dim * shape.value_dim)) {
    const int64_t keys = FloatBytes(int64_t{shape.grid} * shape.num_kv_heads * shape.key_dim);
    const int64_t values = FloatBytes(int64_t{shape.grid} * shape.num_kv_heads * shape.value_dim);
    const int64_t gates =
        gated ? FloatBytes(int64_t{shape.grid} * shape.num_heads * shape.key_dim) : 0;
    constexpr int64_t kGap = 64;
    view_.slot_stride = state_bytes_ + keys + values + gates + kGap;
    buffer_ = Buffer(static_cast<size_t>(num_slots * view_.slot_stride));
    view_.state = buffer_.data();
    view_.keys = view_.state + state_bytes_;
    view_.values = view_.keys + keys;
    if (gated) view_.gates = view_.values + values;
    view_.grid = shape.grid;
    view_.num_heads = shape.num_heads;
    view_.num_kv_heads = shape.num_kv_heads;
    view_.key_dim = shape.key_dim;
    view_.value_dim = shape.value_dim;
    for (int64_t slot = 0; slot < num_slots; ++slot) {
      std::memset(view_.state + slot * view_.slot_stride, 0, static_cast<size_t>(state_bytes_));
    }
  }

  const RecurrentCache& view() const { return view_; }
  size_t size() const { return buffer_.size(); }
  // The state of one slot: [H, Dk * Dv].
  Matrix state(int32_t slot) const {
    const int64_t cols = int64_t{view_.key_dim} * view_.value_dim;
    return {view_.state + slot * view_.slot_stride, DType::kF32, view_.num_heads, cols, cols};
  }

 private:
  static int64_t FloatBytes(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }

  int64_t state_bytes_;
  Buffer buffer_;
  RecurrentCache view_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_RECURRENCE_RECURRENT_MEMORY_H_
