// Conversions of stored elements that a kernel library's packing does not do.
#ifndef LONGSTREAM_BACKENDS_PACKING_CONVERT_H_
#define LONGSTREAM_BACKENDS_PACKING_CONVERT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

// Converts elements [0, count) of `source` to `type`. `source` may be misaligned; `destination` is
// aligned for `type`. Returns the first element that is finite in `source` but not in
// `destination`, or -1. REQUIRES: neither type is quantised
int64_t Convert(const std::byte* source, DType source_type, int64_t count, DType type,
                void* destination);

// The first element that is finite and larger in magnitude than `largest`, or -1.
int64_t FirstBeyond(const std::byte* source, DType source_type, int64_t count, float largest);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_CONVERT_H_
