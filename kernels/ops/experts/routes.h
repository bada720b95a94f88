// The experts of a layer that is a mixture of experts, and the routes of a step: which experts each
// row uses, and with which weights.
#ifndef LONGSTREAM_KERNELS_OPS_EXPERTS_ROUTES_H_
#define LONGSTREAM_KERNELS_OPS_EXPERTS_ROUTES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"

namespace longstream {

// One expert: an MLP with a gate, W_down (act(W_gate h) * (W_up h)).
struct Expert {
  PackedWeight gate;  // [ff, d]
  PackedWeight up;    // [ff, d]
  PackedWeight down;  // [d, ff]
};

// The routes of R rows, K for each row, to N experts. A route is a row, an expert, and the weight
// of the expert's output in the row. The routes lie in the order of experts, and the routes of one
// expert in the order of rows. The arrays are in the device's memory.
//
// A shared expert, which every row uses, is the last of the N experts. Its routes are counted in K.
struct Routes {
  int64_t num_rows = 0;      // R
  int64_t num_experts = 0;   // N
  int64_t per_row = 0;       // K
  int64_t* first = nullptr;  // [N + 1]: expert e has the routes [first[e], first[e + 1])
  int32_t* rows = nullptr;   // [R * K]
  float* weights = nullptr;  // [R * K]

  // Bytes of the three arrays.
  static constexpr size_t Bytes(int64_t num_rows, int64_t num_experts, int64_t per_row) {
    return static_cast<size_t>(num_experts + 1) * sizeof(int64_t) +
           static_cast<size_t>(num_rows) * static_cast<size_t>(per_row) *
               (sizeof(int32_t) + sizeof(float));
  }
  // Places the arrays in Bytes() bytes of memory, 64-byte aligned.
  static Routes In(std::byte* memory, int64_t num_rows, int64_t num_experts, int64_t per_row) {
    std::byte* rows = memory + static_cast<size_t>(num_experts + 1) * sizeof(int64_t);
    std::byte* weights =
        rows + static_cast<size_t>(num_rows) * static_cast<size_t>(per_row) * sizeof(int32_t);
    return {num_rows,
            num_experts,
            per_row,
            reinterpret_cast<int64_t*>(memory),
            reinterpret_cast<int32_t*>(rows),
            reinterpret_cast<float*>(weights)};
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_EXPERTS_ROUTES_H_
