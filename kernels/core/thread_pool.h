// The threads of a process: one pool, which every model's kernels borrow through an Executor.
#ifndef LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_
#define LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/core/executor.h"

namespace longstream {

// Thread-safe: several threads may call ParallelRun at the same time; each works on its own tasks
// and the workers divide among them. A worker that finds nothing to do spins for some tens of
// microseconds (ops of a step follow each other faster than a thread wakes up), then sleeps.
class ThreadPool {
 public:
  // num_threads counts the caller of ParallelRun: the pool starts num_threads - 1 workers.
  // 0: as many as the process may use.
  explicit ThreadPool(uint32_t num_threads);
  // REQUIRES: no ParallelRun is running.
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t num_threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // Calls task(argument, i) once for each i in [0, num_tasks), on the calling thread and on the
  // workers that are free, in any order; returns when all calls have returned. What the tasks wrote
  // is visible to the caller. A task must not throw.
  void ParallelRun(uint32_t num_tasks, Executor::Task task, void* argument);

  // Borrows the pool.
  Executor AsExecutor();

 private:
  struct Job;

  void Work();
  // Waits, spinning at first, for a job that has a task to give, and joins it; nullptr: stop.
  Job* Join();
  Job* JoinLocked();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable work_;  // a job has been added, or stop_
  std::condition_variable done_;  // the last helper of some job has left it
  // Guarded by mutex_; num_added_ is also read without it, by workers that spin.
  Job* jobs_ = nullptr;                 // running jobs; some may have no task left to give
  uint32_t sleepers_ = 0;               // workers waiting on work_
  bool stop_ = false;                   // the destructor has begun
  std::atomic<uint64_t> num_added_{0};  // jobs added to jobs_ so far
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_
