// The thread pool: a list of running jobs, whose tasks are claimed one by one by an atomic counter.
#include "kernels/core/thread_pool.h"

#include <algorithm>
#include <chrono>

namespace longstream {
namespace {

// Longer than the gap between two ops of a step (a few microseconds), shorter than a time slice.
constexpr std::chrono::microseconds kSpinTime{50};

inline void Pause() { __builtin_ia32_pause(); }

// Spins until done() or kSpinTime is over; yields now and then, because machines are shared.
template <typename Done>
bool SpinUntil(const Done& done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      Pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

// Lives on the stack of the thread that called ParallelRun. Workers join only under the pool's
// mutex and while the job is listed; a worker's last access is its decrement of `helpers`.
struct ThreadPool::Job {
  const uint32_t num_tasks;
  const Executor::Task task;
  void* const argument;
  std::atomic<uint32_t> next{0};     // the first task not yet claimed
  std::atomic<uint32_t> helpers{0};  // workers inside
  Job* next_job = nullptr;           // guarded by the pool's mutex

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= num_tasks; }

  void Run() {
    while (!exhausted()) {
      const uint32_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= num_tasks) return;
      task(argument, i);
    }
  }
};

ThreadPool::ThreadPool(uint32_t num_threads) {
  if (num_threads == 0) num_threads = std::max(1u, std::thread::hardware_concurrency());
  workers_.reserve(num_threads - 1);
  for (uint32_t i = 1; i < num_threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelRun(uint32_t num_tasks, Executor::Task task, void* argument) {
  if (num_tasks <= 1 || workers_.empty()) {
    for (uint32_t i = 0; i < num_tasks; ++i) task(argument, i);
    return;
  }
  Job job{num_tasks, task, argument};
  uint32_t to_wake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    job.next_job = jobs_;
    jobs_ = &job;
    num_added_.fetch_add(1, std::memory_order_release);
    to_wake = std::min(sleepers_, num_tasks - 1);
  }
  for (uint32_t i = 0; i < to_wake; ++i) work_.notify_one();

  job.Run();

  {
    std::lock_guard<std::mutex> lock(mutex_);
    Job** link = &jobs_;
    while (*link != &job) link = &(*link)->next_job;
    *link = job.next_job;
  }
  // Acquire pairs with the helpers' release: their tasks' writes are visible from here on.
  const auto done = [&job] { return job.helpers.load(std::memory_order_acquire) == 0; };
  if (SpinUntil(done)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, done);
}

Executor ThreadPool::AsExecutor() {
  return {this, num_threads(),
          [](void* context, uint32_t num_tasks, Executor::Task task, void* argument) {
            static_cast<ThreadPool*>(context)->ParallelRun(num_tasks, task, argument);
          }};
}

void ThreadPool::Work() {
  while (Job* job = Join()) {
    job->Run();
    if (job->helpers.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      // The job may be gone already. The empty critical section orders this notification after the
      // caller's decision to wait.
      { std::lock_guard<std::mutex> lock(mutex_); }
      done_.notify_all();
    }
  }
}

ThreadPool::Job* ThreadPool::Join() {
  while (true) {
    uint64_t seen;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (Job* job = JoinLocked()) return job;
      if (stop_) return nullptr;
      seen = num_added_.load(std::memory_order_relaxed);
    }
    // A job of a few microseconds may be over before it is joined. The next one follows it: whoever
    // sleeps then misses that as well.
    const auto is_new = [this, seen] { return num_added_.load(std::memory_order_acquire) != seen; };
    if (SpinUntil(is_new)) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    if (stop_ || is_new()) continue;
    ++sleepers_;
    work_.wait(lock);
    --sleepers_;
  }
}

ThreadPool::Job* ThreadPool::JoinLocked() {
  // The longest list is the number of engine threads. Which job is taken matters to no result; the
  // one with the fewest helpers keeps engines from starving each other.
  Job* chosen = nullptr;
  for (Job* job = jobs_; job != nullptr; job = job->next_job) {
    if (job->exhausted()) continue;
    if (chosen == nullptr || job->helpers.load(std::memory_order_relaxed) <
                                 chosen->helpers.load(std::memory_order_relaxed)) {
      chosen = job;
    }
  }
  if (chosen != nullptr) chosen->helpers.fetch_add(1, std::memory_order_relaxed);
  return chosen;
}

}  // namespace longstream
