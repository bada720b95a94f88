// The thread pool of the process. The kernels of every model borrow it through an Executor.
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

// Thread-safe: several threads may call ParallelRun at the same time. Each call has its own tasks,
// and the workers divide among the calls. A worker without tasks spins for some tens of
// microseconds and then sleeps. It spins because the ops of a step follow each other faster than a
// thread wakes up.
//
// Each thread begins with a run of neighbouring tasks of its own. When the run is done, the thread
// takes the last tasks of another thread's run. So a thread's data lies side by side, a later loop
// finds a row in the cache of the thread that computed it before, and threads seldom share a cache
// line. That matters: passing a line between two processors takes up to 700 ns, and a step has
// hundreds of loops with dozens of tasks each.
class ThreadPool {
 public:
  // num_threads includes the caller of ParallelRun: the pool starts num_threads - 1 workers.
  // 0: UsableProcessors(). Throws std::system_error if the system gives no further thread.
  explicit ThreadPool(uint32_t num_threads);
  // REQUIRES: no ParallelRun is running.
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t num_threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // Calls task(argument, i) once for each i in [0, num_tasks), in any order. The calling thread
  // takes part, and so do those of the first num_tasks threads that become free in time. Returns
  // when all tasks have returned; the caller then sees what they wrote. A task must not throw.
  // While kMaxCallers calls are running, a further call runs without workers.
  void ParallelRun(uint32_t num_tasks, Executor::Task task, void* argument);

  // The executor borrows the pool.
  Executor AsExecutor();

  static constexpr uint32_t kMaxCallers = 16;

 private:
  struct Run;
  struct Job;
  struct Worker;

  // Takes a free job for a caller; nullptr: all jobs are taken.
  Job* Acquire();
  // Runs tasks of the job until none is left to take, first those of the thread's own run. Returns
  // how many tasks it ran.
  uint32_t Work(const Job& job, uint32_t thread) const;
  // Waits until workers have run `num_tasks` tasks of the job.
  void WaitFor(Job& job, uint32_t num_tasks);
  // Wakes the sleeping workers among the first num_threads threads.
  void Wake(uint32_t num_threads);

  // Ends the workers that have started.
  void Stop();
  void RunWorker(uint32_t thread);
  // Finds the next job with tasks in this thread's run; begins to look at *next_job. nullptr: there
  // is none.
  Job* Find(uint32_t thread, uint32_t* next_job);

  // All threads read the members below all the time and seldom write them.
  std::unique_ptr<Run[]> runs_;             // [kMaxCallers, num_threads]
  std::unique_ptr<Job[]> jobs_;             // [kMaxCallers]
  std::atomic<uint32_t> num_jobs_used_{0};  // no job beyond these ever had a task
  std::atomic<bool> stop_{false};           // the destructor has begun
  std::vector<std::unique_ptr<Worker>> workers_;

  // The number of workers that sleep or are about to. A submitter reads it after it has added
  // tasks. A worker that goes to sleep increments it, then checks for tasks again. Both use
  // read-modify-write operations, so one of the two sees the other. The number has its own cache
  // line, because every loop writes it.
  alignas(64) std::atomic<uint32_t> num_sleepers_{0};
  std::mutex done_mutex_;
  std::condition_variable done_;  // signals that a job is done whose caller sleeps
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_THREAD_POOL_H_
