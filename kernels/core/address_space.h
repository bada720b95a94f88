// The limit on the address space of the process (`ulimit -v`). A reservation of memory counts in
// full there, even if most of it is never used.
#ifndef LONGSTREAM_KERNELS_CORE_ADDRESS_SPACE_H_
#define LONGSTREAM_KERNELS_CORE_ADDRESS_SPACE_H_

#include <cstdint>

namespace longstream {

// The limit in bytes. UINT64_MAX: there is none.
uint64_t AddressSpaceLimit();

// Bytes that the process may still reserve under a limit of `limit` bytes, `used` of which are
// taken. UINT64_MAX if `limit` is UINT64_MAX.
//
// A room for threads, messages and the allocator is never reserved, however many reservations come
// one after the other: 512 MiB, or a quarter of the limit if that is less. Of the rest, one
// reservation leaves 512 MiB to later ones, or half of the rest if that is less.
uint64_t ReservableBytes(uint64_t limit, uint64_t used);

// The same for this process now.
uint64_t ReservableBytes();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_ADDRESS_SPACE_H_
