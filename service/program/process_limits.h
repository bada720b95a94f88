// How the server uses malloc, how many threads it needs, and how it adapts to limits of the system
// on threads and on the address space.
#ifndef LONGSTREAM_SERVICE_PROGRAM_PROCESS_LIMITS_H_
#define LONGSTREAM_SERVICE_PROGRAM_PROCESS_LIMITS_H_

#include <cstddef>

#include "service/config/server_config.h"

namespace longstream {

// Under a limit on the address space (`ulimit -v`), lets malloc have one arena per GiB of the
// limit. Each arena reserves 64 MiB, and by default there are up to 8 per processor, so they would
// leave no room for the stacks of threads. Call it before the first thread starts.
void LimitArenas();

// Sets the sizes from which malloc asks the system for a block of its own, and from which it gives
// back the free end of an arena. By default malloc raises both when a large block is freed: after a
// request of 25 MB, each arena would keep up to 50 MB at its end, and malloc_trim does not give it
// back. Call it before the first thread starts.
void FixHeapThresholds();

// Starts `count` threads at once and ends them again, while some memory beside their stacks is
// reserved. If gRPC cannot start one of its first threads, it ends the program by a signal, or does
// not notice it and cannot end any more. So the server finds out before. Throws std::system_error
// if the system does not give so many threads, std::bad_alloc if it does not give the memory.
void TryThreads(size_t count);

// The number of threads that the server may need, besides those of the thread pool. gRPC starts
// some of its threads only when there is much to do. If the system does not give one of these, gRPC
// has already queued a call's work for it, and the call never ends.
size_t NeededThreads(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_PROCESS_LIMITS_H_
