// The host functions of the conformance kit.
#include "tests/conformance/test_host.h"

namespace longstream::conformance {
namespace {

thread_local bool in_task = false;

struct Run {
  void (*task)(void* argument, uint32_t i);
  void* argument;
  uint32_t num_tasks;
  TaskOrder order;
};

void RunTask(void* run_pointer, uint32_t i) {
  const Run& run = *static_cast<const Run*>(run_pointer);
  in_task = true;
  run.task(run.argument, run.order == TaskOrder::kForward ? i : run.num_tasks - 1 - i);
  in_task = false;
}

}  // namespace

TestHost::TestHost(uint32_t num_threads, TaskOrder order)
    : order_(order),
      pool_(num_threads),
      table_{sizeof(ls_host), this, num_threads, &TestHost::ParallelRun, &TestHost::Log} {}

std::string TestHost::misuse() const {
  if (nested_) return "a task called parallel_run, which is not re-entrant";
  if (bad_log_) return "log was called without text or with a severity outside 0 ... 3";
  return "";
}

void TestHost::ParallelRun(void* context, uint32_t num_tasks,
                           void (*task)(void* argument, uint32_t i), void* argument) {
  auto* host = static_cast<TestHost*>(context);
  if (in_task) host->nested_ = true;
  Run run{task, argument, num_tasks, host->order_};
  host->pool_.ParallelRun(num_tasks, &RunTask, &run);
}

void TestHost::Log(void* context, int32_t severity, const char* text) {
  if (text == nullptr || severity < 0 || severity > 3) {
    static_cast<TestHost*>(context)->bad_log_ = true;
  }
}

}  // namespace longstream::conformance
