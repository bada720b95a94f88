// The heap of a test program whose ops run on a GPU.
//
// Tests of the ops keep what they give to an op in vectors and in buffers of their own. In a
// program linked with managed_heap.cc all of that comes from `new`, which, once started, hands out
// CUDA managed memory: host and GPU reach it under the same address. Tests therefore are the same
// on the CPU, under tests/simt and on a GPU; what they must not do is give an op the address of a
// local variable.
//
// Over-aligned memory, which is what guarded buffers are (tests/kernels/op_test.h), is an
// allocation of its own, so that compute-sanitizer knows its bounds; the rest is divided from one
// large one.
#ifndef LONGSTREAM_TESTS_GPU_MANAGED_HEAP_H_
#define LONGSTREAM_TESTS_GPU_MANAGED_HEAP_H_

#include <string>

namespace longstream {

// From now on `new` returns managed memory of the current device. "", or why it cannot. Call it
// once, in main. End the program with std::_Exit: static objects may lie in memory that the CUDA
// runtime takes away before their destructors run.
std::string StartManagedHeap();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_GPU_MANAGED_HEAP_H_
