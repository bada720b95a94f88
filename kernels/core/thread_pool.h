// The threads of a process: one pool, which every model's kernels borrow through an Executor.
#ifndef LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_
#define LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/core/executor.h"

namespace longstream {

// Thread-safe: several threads may call ParallelRun at the same time; each works on its own tasks
// and the workers divide among them. A worker that finds nothing to do spins for some tens of
// microseconds (ops of a step follow each other faster than a thread wakes up), then sleeps.
//
// Every thread has a run of neighbouring tasks to itself, and takes the last ones of another
// thread's run when its own is done. So what a thread reads and writes lies side by side, loops
// over the same rows find them in the same thread's cache, and threads seldom meet at a cache line:
// to pass one between two processors takes up to 700 ns, and a step has hundreds of loops with
// dozens of tasks each.
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

  // Calls task(argument, i) once for each i in [0, num_tasks), on the calling thread and on those
  // of the first num_tasks threads that are free before others have taken their run, in any order;
  // returns when all calls have returned. What the tasks wrote is visible to the caller. A task
  // must not throw. Of more than kMaxCallers calls at a time, the later ones have no workers.
  void ParallelRun(uint32_t num_tasks, Executor::Task task, void* argument);

  // Borrows the pool.
  Executor AsExecutor();

  static constexpr uint32_t kMaxCallers = 16;

 private:
  struct Run;
  struct Job;
  struct Worker;

  // A caller's job; nullptr: all are taken.
  Job* Acquire();
  // Does tasks of the job until none is left to take, first of the thread's own run; how many.
  uint32_t Work(const Job& job, uint32_t thread) const;
  // Until workers have done so many.
  void WaitFor(Job& job, uint32_t num_tasks);
  // Wakes the workers that sleep, of the first num_threads threads.
  void Wake(uint32_t num_threads);

  void RunWorker(uint32_t thread);
  // The next job, from *next_job on, that has tasks in this thread's run; nullptr: none.
  Job* Find(uint32_t thread, uint32_t* next_job);

  // What all threads read all the time and seldom write.
  std::unique_ptr<Run[]> runs_;             // [kMaxCallers, num_threads]
  std::unique_ptr<Job[]> jobs_;             // [kMaxCallers]
  std::atomic<uint32_t> num_jobs_used_{0};  // jobs from here on never had a task
  std::atomic<bool> stop_{false};           // the destructor has begun
  std::vector<std::unique_ptr<Worker>> workers_;

  // Workers that sleep or are about to. Who has given tasks reads it, and who goes to sleep counts
  // itself before it looks for tasks once more, either by an operation that modifies it: one of the
  // two then sees the other. In a line apart, because every loop writes it.
  alignas(64) std::atomic<uint32_t> num_sleepers_{0};
  std::mutex done_mutex_;
  std::condition_variable done_;  // some job is done whose caller sleeps
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_
