// Conversion of stored elements that a kernel library's packing does not do itself.
#ifndef LONGSTREAM_BACKENDS_PACKING_CONVERT_H_
#define LONGSTREAM_BACKENDS_PACKING_CONVERT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

// Elements [0, count) of `source`, which may be misaligned, as `type` to `destination`, which is
// aligned for it. Returns the first element that is finite at the source and not at the
// destination, or -1. REQUIRES: neither type is quantised
int64_t Convert(const std::byte* source, DType source_type, int64_t count, DType type,
                void* destination);

// The first of those elements that is finite and larger than `largest` in magnitude, or -1.
int64_t FirstBeyond(const std::byte* source, DType source_type, int64_t count, float largest);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_CONVERT_H_
