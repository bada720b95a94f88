// The server adapts to limits of the system on its threads and its address space.
#ifndef LONGSTREAM_SERVICE_PROCESS_LIMITS_H_
#define LONGSTREAM_SERVICE_PROCESS_LIMITS_H_

#include <cstddef>

namespace longstream {

// Under a limit on the address space (`ulimit -v`), lets malloc have one arena per GiB of the
// limit. Each arena reserves 64 MiB, and by default there are up to 8 per processor, so they would
// leave no room for the stacks of threads. Call it before the first thread starts.
void LimitArenas();

// Starts `count` threads at once and ends them again, while some memory beside their stacks is
// reserved. If gRPC cannot start one of its first threads, it ends the program by a signal, or does
// not notice it and cannot end any more. So the server finds out before. Throws std::system_error
// if the system does not give so many threads, std::bad_alloc if it does not give the memory.
void TryThreads(size_t count);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROCESS_LIMITS_H_
