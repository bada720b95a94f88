// The thread pool. Each caller has a job, and a job has a run of tasks for each thread.
#include "kernels/core/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "kernels/core/limits/processors.h"

namespace longstream {
namespace {

// How long a thread spins before it sleeps. This is longer than the gap between two ops of a step
// (a few microseconds) and shorter than a time slice of the system.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr size_t kCacheLine = 64;

inline void Pause() { __builtin_ia32_pause(); }

// The number of pauses between two yields. So many pauses take 6 us on a Zen 5 processor. A yield
// takes 0.4 us, during which the thread does not look for work.
constexpr int kPausesInARow = 256;

// Spins until done() returns true or kSpinTime is over, and returns whether it is done. Yields now
// and then, because other processes may need the processor.
template <typename Done>
bool SpinUntil(const Done& done) {
  if (done()) return true;
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesInARow; ++i) {
      if (done()) return true;
      Pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// Tasks [begin, end) in one word, so that one operation can take a task from either end.
constexpr uint64_t Interval(uint32_t begin, uint32_t end) { return uint64_t{end} << 32 | begin; }
constexpr uint32_t BeginOf(uint64_t interval) { return static_cast<uint32_t>(interval); }
constexpr uint32_t EndOf(uint64_t interval) { return static_cast<uint32_t>(interval >> 32); }
constexpr uint32_t NumTasks(uint64_t interval) { return EndOf(interval) - BeginOf(interval); }

}  // namespace

// The tasks of one thread, in a cache line that other threads touch only when they have no tasks of
// their own.
//
// A worker may look at a run at any time, even while its job has no caller. It has taken a task
// only when it has changed `left`. From then on, the job is not done until the worker has counted
// the task. While a job is not done, `task` and `argument` stay as they are; they were written
// before `left`.
struct alignas(kCacheLine) ThreadPool::Run {
  std::atomic<uint64_t> left{0};  // Interval: tasks that nobody has taken yet
  Executor::Task task = nullptr;
  void* argument = nullptr;

  // Takes a task and does it. The run's own thread takes the first task that is left, other threads
  // take the last one. Returns false if no task is left.
  bool DoOne(bool own) {
    uint64_t tasks = left.load(std::memory_order_relaxed);
    do {
      if (NumTasks(tasks) == 0) return false;
    } while (!left.compare_exchange_weak(tasks,
                                         own ? Interval(BeginOf(tasks) + 1, EndOf(tasks))
                                             : Interval(BeginOf(tasks), EndOf(tasks) - 1),
                                         std::memory_order_acquire, std::memory_order_relaxed));
    task(argument, own ? BeginOf(tasks) : EndOf(tasks) - 1);
    return true;
  }
};

struct alignas(kCacheLine) ThreadPool::Job {
  static constexpr uint64_t kCallerSleeps = uint64_t{1} << 32;

  std::atomic<bool> taken{false};                     // a caller has the job
  alignas(kCacheLine) std::atomic<uint64_t> done{0};  // tasks that workers did, and kCallerSleeps
  // [num_threads]. The pointer has a cache line of its own, because all spinning workers read it.
  // Nobody writes to this line.
  alignas(kCacheLine) Run* runs = nullptr;
};

struct alignas(kCacheLine) ThreadPool::Worker {
  std::thread thread;
  std::atomic<bool> sleeps{false};  // the worker sleeps or is about to
  std::mutex mutex;
  std::condition_variable work;  // signals new tasks or stop_

  void Wake() {
    // The empty critical section ensures that a worker which has decided to wait does wait before
    // it is notified.
    { std::lock_guard<std::mutex> lock(mutex); }
    work.notify_one();
  }
};

ThreadPool::ThreadPool(uint32_t num_threads) {
  if (num_threads == 0) num_threads = UsableProcessors();
  runs_ = std::make_unique<Run[]>(size_t{kMaxCallers} * num_threads);
  jobs_ = std::make_unique<Job[]>(kMaxCallers);
  for (uint32_t i = 0; i < kMaxCallers; ++i) jobs_[i].runs = &runs_[size_t{i} * num_threads];
  for (uint32_t i = 1; i < num_threads; ++i) workers_.push_back(std::make_unique<Worker>());
  try {
    for (uint32_t i = 1; i < num_threads; ++i) {
      workers_[i - 1]->thread = std::thread([this, i] { RunWorker(i); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_ = true;
  for (const auto& worker : workers_) worker->Wake();
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void ThreadPool::ParallelRun(uint32_t num_tasks, Executor::Task task, void* argument) {
  Job* const job = num_tasks <= 1 || workers_.empty() ? nullptr : Acquire();
  if (job == nullptr) {
    for (uint32_t i = 0; i < num_tasks; ++i) task(argument, i);
    return;
  }
  const uint32_t threads = std::min(num_tasks, num_threads());
  const uint32_t shortest = num_tasks / threads, num_longer = num_tasks % threads;
  job->done.store(0, std::memory_order_relaxed);
  for (uint32_t i = threads; i-- > 0;) {
    Run& run = job->runs[i];
    const uint32_t begin = i * shortest + std::min(i, num_longer);
    const uint32_t end = begin + shortest + (i < num_longer ? 1 : 0);
    run.task = task;
    run.argument = argument;
    run.left.store(Interval(begin, end), std::memory_order_release);
  }
  // The first look at num_sleepers_ is cheap. It lets sleepers wake up while this thread does its
  // first task, but it can miss a thread that is just going to sleep. The second look, after the
  // first task, finds that thread. Only the second look needs an ordered operation. The operation
  // costs nothing there, because the stores above have long reached the other processors.
  if (num_sleepers_.load(std::memory_order_relaxed) > 0) Wake(threads);
  uint32_t num_done = job->runs[0].DoOne(true) ? 1 : 0;
  if (num_sleepers_.fetch_add(0, std::memory_order_acq_rel) > 0) Wake(threads);
  num_done += Work(*job, 0);
  WaitFor(*job, num_tasks - num_done);
  job->taken.store(false, std::memory_order_release);
}

Executor ThreadPool::AsExecutor() {
  return {this, num_threads(),
          [](void* context, uint32_t num_tasks, Executor::Task task, void* argument) {
            static_cast<ThreadPool*>(context)->ParallelRun(num_tasks, task, argument);
          }};
}

ThreadPool::Job* ThreadPool::Acquire() {
  // A caller first tries the job that it had before, because that job's lines are in its cache.
  static std::atomic<uint32_t> num_callers{0};
  thread_local const uint32_t first = num_callers.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kMaxCallers; ++i) {
    const uint32_t index = (first + i) % kMaxCallers;
    Job& job = jobs_[index];
    if (job.taken.load(std::memory_order_relaxed)) continue;
    if (job.taken.exchange(true, std::memory_order_acquire)) continue;
    uint32_t used = num_jobs_used_.load(std::memory_order_relaxed);
    while (used <= index && !num_jobs_used_.compare_exchange_weak(used, index + 1)) {
    }
    return &job;
  }
  return nullptr;
}

uint32_t ThreadPool::Work(const Job& job, uint32_t thread) const {
  uint32_t num_done = 0;
  while (job.runs[thread].DoOne(true)) ++num_done;
  for (uint32_t i = 1; i < num_threads(); ++i) {
    Run& other = job.runs[(thread + i) % num_threads()];
    while (other.DoOne(false)) ++num_done;
  }
  return num_done;
}

void ThreadPool::WaitFor(Job& job, uint32_t num_tasks) {
  // Acquire pairs with the workers' release: their tasks' writes are visible from here on.
  const auto is_done = [&] {
    return static_cast<uint32_t>(job.done.load(std::memory_order_acquire)) == num_tasks;
  };
  if (SpinUntil(is_done)) return;
  std::unique_lock<std::mutex> lock(done_mutex_);
  job.done.fetch_or(Job::kCallerSleeps, std::memory_order_relaxed);
  done_.wait(lock, is_done);
}

void ThreadPool::Wake(uint32_t num_threads) {
  for (uint32_t i = 1; i < num_threads; ++i) {
    Worker& worker = *workers_[i - 1];
    if (worker.sleeps.load(std::memory_order_relaxed)) worker.Wake();
  }
}

void ThreadPool::RunWorker(uint32_t thread) {
  Worker& self = *workers_[thread - 1];
  uint32_t next_job = 0;
  Job* job = nullptr;
  const auto found = [&] { return (job = Find(thread, &next_job)) != nullptr; };
  while (!stop_) {
    if (!SpinUntil(found)) {
      std::unique_lock<std::mutex> lock(self.mutex);
      self.sleeps.store(true, std::memory_order_relaxed);
      num_sleepers_.fetch_add(1, std::memory_order_acq_rel);
      self.work.wait(lock, [&] { return found() || stop_; });
      num_sleepers_.fetch_sub(1, std::memory_order_relaxed);
      self.sleeps.store(false, std::memory_order_relaxed);
      if (job == nullptr) return;
    }
    const uint32_t num_done = Work(*job, thread);
    if (num_done == 0) continue;
    const uint64_t before = job->done.fetch_add(num_done, std::memory_order_acq_rel);
    if ((before & Job::kCallerSleeps) == 0) continue;
    { std::lock_guard<std::mutex> lock(done_mutex_); }
    done_.notify_all();
  }
}

ThreadPool::Job* ThreadPool::Find(uint32_t thread, uint32_t* next_job) {
  const uint32_t num_jobs = num_jobs_used_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < num_jobs; ++i) {
    // Goes through the jobs in turn, so that no caller keeps the worker to itself.
    const uint32_t index = *next_job < num_jobs ? *next_job : 0;
    *next_job = index + 1;
    Job& job = jobs_[index];
    if (NumTasks(job.runs[thread].left.load(std::memory_order_relaxed)) > 0) return &job;
  }
  return nullptr;
}

}  // namespace longstream
