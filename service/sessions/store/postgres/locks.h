// The store's advisory locks in PostgreSQL, in the order in which a transaction takes them.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_LOCKS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_LOCKS_H_

#include <cstdint>

namespace longstream::store {

// Whoever changes the tables themselves.
inline constexpr int64_t kSchemaLock = 0x6c6f6e6773740001;
// Changes of the log share it, and a transaction that collects turns has it alone.
inline constexpr int64_t kTurnsLock = 0x6c6f6e6773740002;
// A transaction that adds or removes snapshots and their segments has it alone.
inline constexpr int64_t kSegmentsLock = 0x6c6f6e6773740003;

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_LOCKS_H_
