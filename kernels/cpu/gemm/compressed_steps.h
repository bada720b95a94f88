// Walks over the steps of a compressed panel (compressed_panel.h), two at a time.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_STEPS_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/gemm/compressed_panel.h"

#if defined(__AVX2__)

namespace longstream::cpu::LONGSTREAM_ISA {

// Some compressed steps of a panel: an even number of steps, from an even one on.
struct CompressedSteps {
  StepReader reader;
  const std::byte* from;  // the first column
  Patches patches;        // the patches of these and later steps
  int64_t first;
  int64_t count;
};

LONGSTREAM_INLINE CompressedSteps StepsOf(const PanelView& panel) {
  return {StepReader(panel), panel.steps(), panel.patches(), 0, panel.num_steps()};
}

// Calls two(step, lay) for every two of `count` steps. `lay` is a true_type if one of the two steps
// has patches. So the inner loop over steps without patches has no branch.
template <typename NextPatched, typename Two>
LONGSTREAM_INLINE void ForTwoSteps(int64_t first, int64_t count, const NextPatched& next_patched,
                                   const Two& two) {
  const int64_t end = first + count;
  for (int64_t step = first; step < end; step += 2) {
    for (const int64_t until = std::min(end, next_patched() / 2 * 2); step < until; step += 2) {
      two(step, std::false_type{});
    }
    if (step == end) return;
    two(step, std::true_type{});
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_COMPRESSED_STEPS_H_
