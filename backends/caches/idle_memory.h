// Memory that free pieces of a pool still hold, and when the system gets it back.
#ifndef LONGSTREAM_BACKENDS_CACHES_IDLE_MEMORY_H_
#define LONGSTREAM_BACKENDS_CACHES_IDLE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "backends/caches/device_memory.h"
#include "backends/caches/id_pool.h"

namespace longstream {

// A store may always keep this much, so that short sessions which come one after the other cause no
// page faults.
inline constexpr uint64_t kIdleBytesKept = uint64_t{8} << 20;

// How many of `idle` bytes to give back. Idle bytes may be as many as those that sequences have
// reserved, plus kIdleBytesKept. So a store that was full once and is then empty holds little, and
// a server whose sessions come and go at the same rate seldom writes to new memory. Reserved and
// idle bytes together stay within the limit. More than necessary is given back at a time, because
// each time costs a search through the pools.
uint64_t IdleBytesToReturn(uint64_t idle, uint64_t reserved, uint64_t limit);

// Gives the memory of the free pieces [first, last) back to the system, so that they are zero when
// they are next used. Piece i begins at i * piece_bytes. A page of the system that also holds a
// part of a taken piece stays, and only the part of the free pieces is zeroed. Empty pieces of the
// same huge page are returned too, except the last piece of `memory`, which may be a spare one
// without an id.
void ReturnPieces(DeviceMemory& memory, size_t piece_bytes, const IdPool& ids, size_t first,
                  size_t last);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_IDLE_MEMORY_H_
