// The threads that an op may use: a borrowed function that runs numbered tasks on the host's
// threads.
#ifndef LONGSTREAM_KERNELS_CORE_EXECUTOR_H_
#define LONGSTREAM_KERNELS_CORE_EXECUTOR_H_

#include <cstdint>
#include <type_traits>

namespace longstream {

// An executor has the shape of the ABI's ls_host.parallel_run. So a plugin's kernels run on its
// host's threads, and the process has one pool. An executor can be copied; it borrows what
// `context` points to.
struct Executor {
  using Task = void (*)(void* argument, uint32_t index);

  void* context = nullptr;
  uint32_t num_threads = 1;
  // Runs task(argument, i) once for each i in [0, num_tasks) and returns when all are done. A task
  // must not call `run`. If `run` is nullptr, the calling thread runs the tasks in order.
  void (*run)(void* context, uint32_t num_tasks, Task task, void* argument) = nullptr;
};

// Calls body(i) for i in [0, num_tasks). A task's result must not depend on num_threads or on the
// order of the tasks, so that results do not depend on the number of threads.
template <typename Body>
void ParallelFor(const Executor& executor, uint32_t num_tasks, Body&& body) {
  if (executor.run == nullptr || num_tasks <= 1) {
    for (uint32_t i = 0; i < num_tasks; ++i) body(i);
    return;
  }
  using BodyType = std::remove_reference_t<Body>;
  executor.run(
      executor.context, num_tasks,
      [](void* argument, uint32_t i) { (*static_cast<BodyType*>(argument))(i); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_EXECUTOR_H_
