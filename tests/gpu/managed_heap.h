// The heap of a test program whose ops run on a GPU.
//
// Tests of the ops keep an op's arguments in vectors and in buffers of their own. In a program
// linked with managed_heap.cc all this memory comes from `new`. After StartManagedHeap, `new`
// returns CUDA managed memory, which the host and the GPU reach at the same address. So the same
// tests run on the CPU, under tests/simt and on a GPU. A test must not give an op the address of a
// local variable.
//
// Over-aligned memory is an allocation of its own, so that compute-sanitizer knows its bounds; the
// guarded buffers of tests/kernels/op_test.h are over-aligned. All other blocks are parts of one
// large allocation.
#ifndef LONGSTREAM_TESTS_GPU_MANAGED_HEAP_H_
#define LONGSTREAM_TESTS_GPU_MANAGED_HEAP_H_

#include <string>

namespace longstream {

// From now on `new` returns managed memory of the current device. Returns "", or the reason why it
// cannot. Call it once, in main. End the program with std::_Exit: static objects may lie in managed
// memory, which the CUDA runtime releases before their destructors run.
std::string StartManagedHeap();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_GPU_MANAGED_HEAP_H_
