// Runs CUDA kernels on the CPU, thread by thread, so that tests can execute them without a GPU.
//
// The threads of a block are fibers. A thread runs until it waits (for the block at __syncthreads,
// for its warp at a shuffle or vote); then the next one runs. Blocks run one after the other.
// Everything happens on the calling OS thread, in an order that LONGSTREAM_SIMT_ORDER chooses:
// forward (default), backward, or a number that seeds a shuffle. If a kernel's result depends on
// it, a barrier is missing.
//
// These mistakes end the process, with a sentence that names the block and the threads: a barrier
// that some threads never reach; a shuffle from a lane outside its mask; different operations in
// the lanes of one mask; copies or products that nobody waits for (warpgroup.h); a thread of an
// overlapping launch that has not awaited the earlier kernels. Shared memory is NaN at first, and
// ASan sees its end where the launch states it. The harness does not model: threads of a warp in
// lockstep, writes that other threads see late, blocks that wait for each other.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_BLOCK_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

#include "tests/simt/harness/vector_types.h"

namespace longstream::simt {

struct Launch {
  const void* kernel = nullptr;  // address of the kernel
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  bool overlaps = false;  // may begin before earlier kernels have ended
};

class Block;

// Runs a launch: calls body() once for each thread of each block. Launches of other OS threads wait
// meanwhile.
class Running {
 public:
  Running(const Launch& launch, const std::function<void()>& body);  // both must outlive it
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Runs the first block until its threads await earlier kernels. May be called once, before
  // Finish.
  void Begin();
  // Runs all blocks, or those that Begin has left.
  void Finish();

 private:
  const Launch& launch_;
  const std::function<void()>& body_;
  std::unique_ptr<Block> block_;  // exists from Begin to Finish
};

// Lets a kernel have more than 48 KiB of shared memory.
void AllowSharedBytes(const void* kernel, size_t bytes);

// Kernels call the functions below, in a thread of a block.

struct Place {
  uint3 thread;
  uint3 block;
  dim3 block_size;
  dim3 grid_size;
  int lane = 0;  // the thread's lane in its warp
};
extern Place place;  // the place of the running thread

inline int Lane() { return place.lane; }
std::byte* SharedMemory();  // 1024-byte aligned

void BlockBarrier();
// A barrier. Returns whether any thread gave a predicate other than 0.
int BlockVote(int predicate);

void WarpBarrier(uint32_t mask);
uint32_t Ballot(uint32_t mask, int predicate);

// A value in an array. All types take the same size, so copying it takes an instruction or two.
template <size_t kSize>
struct Bytes {
  template <typename T>
  explicit Bytes(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kSize);
    std::memcpy(data, &value, sizeof(T));
  }
  Bytes() = default;
  template <typename T>
  T As() const {
    T value;
    std::memcpy(&value, data, sizeof(T));
    return value;
  }

  std::byte data[kSize] = {};
};
using ShuffledBytes = Bytes<16>;
using GatheredBytes = Bytes<32>;

// Gives `value` to the lanes of `mask`, returns the value of lane `from`.
ShuffledBytes ShuffleBytes(uint32_t mask, const ShuffledBytes& value, int from);

template <typename T>
T Shuffle(uint32_t mask, T value, int from) {
  return ShuffleBytes(mask, ShuffledBytes(value), from).As<T>();
}

// Gives `value` to the 32 lanes of the warp. All of them must call it. Returns the values of all
// lanes, valid until the warp's next operation.
const GatheredBytes* GatherBytes(const GatheredBytes& value);

// Exchanges values among the lanes of a warp, for operations that are one instruction on a device
// and would be many shuffles here.
template <typename T>
class Gathered {
 public:
  explicit Gathered(const T& value) : bytes_(GatherBytes(GatheredBytes(value))) {}
  T operator[](int lane) const { return bytes_[lane].template As<T>(); }

 private:
  const GatheredBytes* bytes_;
};

void AwaitEarlierKernels();
// Reads the byte, so it must exist.
void Prefetch(const void* address);

void CopyLater(void* to, const void* from, size_t bytes, size_t zeros);
void CommitCopies();
void WaitForCopies(size_t groups);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_BLOCK_H_
