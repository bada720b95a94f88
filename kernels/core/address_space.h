// The limit on the address space of the process (`ulimit -v`). A reservation of memory counts in
// full there, even if most of it is never used.
#ifndef LONGSTREAM_KERNELS_CORE_ADDRESS_SPACE_H_
#define LONGSTREAM_KERNELS_CORE_ADDRESS_SPACE_H_

#include <cstdint>

namespace longstream {

// Bytes that the process may still reserve under a limit of `limit` bytes, `used` of which are
// taken. Leaves room for threads, messages and the allocator: 1 GiB, or half of the rest if that is
// less. UINT64_MAX if `limit` is RLIM_INFINITY.
uint64_t ReservableBytes(uint64_t limit, uint64_t used);

// The same for this process now.
uint64_t ReservableBytes();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_ADDRESS_SPACE_H_
