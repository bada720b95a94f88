// Test programs whose ops run on a GPU.
#ifndef LONGSTREAM_TESTS_GPU_RUN_TESTS_H_
#define LONGSTREAM_TESTS_GPU_RUN_TESTS_H_

namespace longstream {

// What a program returns where there is no GPU that it could run on.
inline constexpr int kNoDevice = 2;

enum class TestHeap {
  kHost,     // host and device memory apart, as in production
  kManaged,  // managed_heap.h
};

// Runs the tests of the program on the first GPU and ends it: with GoogleTest's status, or with a
// sentence and kNoDevice.
[[noreturn]] void RunTestsOnGpu(int argc, char** argv, TestHeap heap);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_GPU_RUN_TESTS_H_
