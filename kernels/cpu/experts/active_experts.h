// The experts that the rows of a step use.
#ifndef LONGSTREAM_KERNELS_CPU_EXPERTS_ACTIVE_EXPERTS_H_
#define LONGSTREAM_KERNELS_CPU_EXPERTS_ACTIVE_EXPERTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm/prepared_rows.h"
#include "kernels/ops/experts/expert_hidden.h"
#include "kernels/ops/experts/routes.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// An expert with routes.
struct ActiveExpert {
  const Expert* expert = nullptr;
  int64_t first_route = 0;
  int64_t num_routes = 0;
  size_t hidden = 0;        // where its hidden rows begin, in bytes
  PreparedRows inputs{};    // the rows that use it, one for each route; set by expert_hidden
  uint32_t first_task = 0;  // of expert_hidden
};
static_assert(sizeof(ActiveExpert) <= 64);  // ExpertWorkspace has room for one per expert

// In the order of experts, in the memory of a workspace.
struct ActiveExperts {
  ActiveExpert* data = nullptr;
  int64_t count = 0;

  LONGSTREAM_INLINE ActiveExpert* begin() const { return data; }
  LONGSTREAM_INLINE ActiveExpert* end() const { return data + count; }
};

// memory: 64 bytes for each expert of the routes, 64-byte aligned.
ActiveExperts FindActiveExperts(const Routes& routes, const Expert* experts, std::byte* memory);

// Hidden rows as the product with `down` reads them.
LONGSTREAM_INLINE PreparedRows HiddenRows(const std::byte* hidden, const PackedWeight& down) {
  const bool as_f32 = down.type == DType::kF32 || down.type == DType::kF16;
  return {hidden, as_f32 ? down.k : PreparedStride(down.type, down.k)};
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_EXPERTS_ACTIVE_EXPERTS_H_
