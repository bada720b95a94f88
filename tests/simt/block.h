// Runs CUDA kernels on the CPU, thread by thread, so that tests can execute them without a GPU.
//
// The threads of a block are fibers. One runs until it waits (for the block at __syncthreads, for
// its warp at a shuffle or vote), then the next; blocks follow each other. Everything happens on
// the calling OS thread, in an order that LONGSTREAM_SIMT_ORDER chooses: forward (default),
// backward, or a number that seeds a shuffle. A kernel whose result depends on it lacks a barrier.
//
// What ends the process, with a sentence that names the block and the threads: a barrier that not
// all threads reach, a shuffle from a lane outside its mask, lanes of one mask at different
// operations, copies or products left unawaited (warpgroup.h), a thread of an overlapping launch
// that has not awaited the kernels before. Shared memory begins as NaN and ends, for ASan, where
// the launch says. Not modelled: threads of a warp running in lockstep, memory that other threads
// see late, blocks that wait for each other.
#ifndef LONGSTREAM_TESTS_SIMT_BLOCK_H_
#define LONGSTREAM_TESTS_SIMT_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

#include "tests/simt/vector_types.h"

namespace longstream::simt {

struct Launch {
  const void* kernel = nullptr;  // its address
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  bool overlaps = false;  // may begin before the kernels before it have ended
};

class Block;

// A launch that runs: body() once for each thread of each block. While it does, those of other OS
// threads wait.
class Running {
 public:
  Running(const Launch& launch, const std::function<void()>& body);  // both must outlive it
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The first block, until its threads await earlier kernels. At most once, before Finish.
  void Begin();
  // All, or what Begin has left.
  void Finish();

 private:
  const Launch& launch_;
  const std::function<void()>& body_;
  std::unique_ptr<Block> block_;  // there from Begin to Finish
};

// Without it a kernel may not have more than 48 KiB of shared memory.
void AllowSharedBytes(const void* kernel, size_t bytes);

// Below: called by kernels, in a thread of a block.

struct Place {
  uint3 thread;
  uint3 block;
  dim3 block_size;
  dim3 grid_size;
};
extern Place place;  // of the thread that runs

// In its warp.
inline int Lane() {
  const unsigned thread =
      place.thread.x + place.block_size.x * (place.thread.y + place.block_size.y * place.thread.z);
  return static_cast<int>(thread % 32);
}
std::byte* SharedMemory();  // 1024-byte aligned

void BlockBarrier();
struct Votes {
  int any = 0;
  int all = 0;
  int count = 0;
};
Votes BlockVote(int predicate);

void WarpBarrier(uint32_t mask);
uint32_t Ballot(uint32_t mask, int predicate);
// Leaves `value` (at most 16 bytes) for the lanes of `mask`, takes that of lane `from`.
void ShuffleBytes(uint32_t mask, void* value, size_t bytes, int from);

template <typename T>
T Shuffle(uint32_t mask, T value, int from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  ShuffleBytes(mask, &value, sizeof(T), from);
  return value;
}

// Leaves `value` (at most kGatherBytes) for the 32 lanes of the warp; all of them take part.
// Returns what each left, kGatherBytes apart, valid until the warp's next operation.
inline constexpr size_t kGatherBytes = 32;
const std::byte* GatherBytes(const void* value, size_t bytes);

// One operation where a device does in one instruction what would be many shuffles.
template <typename T>
class Gathered {
 public:
  explicit Gathered(const T& value) : bytes_(GatherBytes(&value, sizeof(T))) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kGatherBytes);
  }
  T operator[](int lane) const {
    T value;
    std::memcpy(&value, bytes_ + static_cast<size_t>(lane) * kGatherBytes, sizeof(T));
    return value;
  }

 private:
  const std::byte* bytes_;
};

void AwaitEarlierKernels();
// Reads the byte, so that it must be there.
void Prefetch(const void* address);

void CopyLater(void* to, const void* from, size_t bytes, size_t zeros);
void CommitCopies();
void WaitForCopies(size_t groups);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_BLOCK_H_
