// The kit's host: a thread pool that notes misuse by the plugin.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_TEST_HOST_H_
#define LONGSTREAM_TESTS_CONFORMANCE_TEST_HOST_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "backends/api/backend.h"
#include "kernels/core/thread_pool.h"

namespace longstream::conformance {

// The order in which the pool runs the tasks of a call.
enum class TaskOrder { kForward, kBackward };

class TestHost {
 public:
  explicit TestHost(uint32_t num_threads, TaskOrder order = TaskOrder::kForward);

  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  const ls_host* table() const { return &table_; }

  // Returns a sentence that names an action of the plugin that the ABI forbids, or "" if there was
  // none.
  std::string misuse() const;

 private:
  static void ParallelRun(void* context, uint32_t num_tasks,
                          void (*task)(void* argument, uint32_t i), void* argument);
  static void Log(void* context, int32_t severity, const char* text);

  const TaskOrder order_;
  ThreadPool pool_;
  ls_host table_;
  std::atomic<bool> nested_{false};  // a task called parallel_run, which is forbidden
  std::atomic<bool> bad_log_{false};
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_TEST_HOST_H_
