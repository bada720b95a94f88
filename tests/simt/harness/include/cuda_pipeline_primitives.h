// Replaces <cuda_pipeline_primitives.h>. A copy may happen only when its thread waits for it, so a
// thread that reads without waiting reads the old bytes.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_PIPELINE_PRIMITIVES_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_PIPELINE_PRIMITIVES_H_

#include <cstddef>

#include "tests/simt/harness/block.h"

// Copies `bytes` (4, 8 or 16). The last `zeros` of them are written as 0 and not read.
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  longstream::simt::CopyLater(to, from, bytes, zeros);
}
inline void __pipeline_commit() { longstream::simt::CommitCopies(); }
// Waits until at most the last `groups` commits are under way.
inline void __pipeline_wait_prior(size_t groups) { longstream::simt::WaitForCopies(groups); }

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_PIPELINE_PRIMITIVES_H_
