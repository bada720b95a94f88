// Test programs whose ops run on a GPU.
#ifndef LONGSTREAM_TESTS_GPU_RUN_TESTS_H_
#define LONGSTREAM_TESTS_GPU_RUN_TESTS_H_

namespace longstream {

// The exit status of a program that finds no usable GPU.
inline constexpr int kNoDevice = 2;

enum class TestHeap {
  kHost,     // separate host and device memory, as in production
  kManaged,  // managed memory for both: managed_heap.h
};

// Runs the program's tests on the first GPU and ends the program with GoogleTest's status. If there
// is no usable GPU, prints a sentence and ends the program with kNoDevice.
[[noreturn]] void RunTestsOnGpu(int argc, char** argv, TestHeap heap);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_GPU_RUN_TESTS_H_
