// A library for LD_PRELOAD that lets a process have only as many threads at once as the variable
// LONGSTREAM_MAX_THREADS says, its first thread included. pthread_create fails with EAGAIN beyond,
// as under a limit on processes. (The system itself lets root exceed such a limit.)
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

using StartRoutine = void* (*)(void*);
using Create = int (*)(pthread_t*, const pthread_attr_t*, StartRoutine, void*);

std::atomic<int> num_threads{1};

struct Start {
  StartRoutine routine;
  void* argument;
};

void* RunCounted(void* argument) {
  // Threads that end by pthread_exit or cancellation stay counted. Nobody here ends them so.
  auto* const start = static_cast<Start*>(argument);
  void* const result = start->routine(start->argument);
  delete start;
  --num_threads;
  return result;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, StartRoutine routine, void* argument) {
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  static const char* const most = std::getenv("LONGSTREAM_MAX_THREADS");
  if (++num_threads > (most == nullptr ? 1 << 20 : std::atoi(most))) {
    --num_threads;
    return EAGAIN;
  }
  auto* const start = new Start{routine, argument};
  const int error = create(thread, attributes, RunCounted, start);
  if (error == 0) return 0;
  delete start;
  --num_threads;
  return error;
}
