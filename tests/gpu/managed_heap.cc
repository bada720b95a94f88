// operator new and delete over managed memory. Block sizes are powers of two; free blocks are kept
// in lists.
#include "tests/gpu/managed_heap.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

namespace longstream {
namespace {

// The size of the address range. A page gets memory when it is first touched.
constexpr size_t kArenaBytes = size_t{8} << 30;
// The header holds a block's size class and keeps the block's contents aligned.
constexpr size_t kHeaderBytes = 16;
constexpr size_t kSmallestBlock = 32;

struct FreeBlock {
  FreeBlock* next;
};

class Arena {
 public:
  // Call it before the first allocation.
  void Start(std::byte* memory) {
    next_ = memory;
    end_ = memory + kArenaBytes;
    memory_.store(memory, std::memory_order_release);
  }

  bool started() const { return memory_.load(std::memory_order_acquire) != nullptr; }

  bool Owns(const void* data) const {
    const auto* const memory = memory_.load(std::memory_order_acquire);
    return memory != nullptr && data >= memory && data < memory + kArenaBytes;
  }

  void* Take(size_t size) {
    const size_t bytes = std::bit_ceil(std::max(size + kHeaderBytes, kSmallestBlock));
    const auto block_class = static_cast<size_t>(std::countr_zero(bytes));
    const std::lock_guard<std::mutex> lock(mutex_);
    std::byte* block = nullptr;
    if (FreeBlock* const reused = free_[block_class]; reused != nullptr) {
      free_[block_class] = reused->next;
      block = reinterpret_cast<std::byte*>(reused);
    } else if (bytes <= static_cast<size_t>(end_ - next_)) {
      block = next_;
      next_ += bytes;
    } else {
      return nullptr;
    }
    *reinterpret_cast<size_t*>(block) = block_class;
    return block + kHeaderBytes;
  }

  void Give(void* data) {
    auto* const block = static_cast<std::byte*>(data) - kHeaderBytes;
    const size_t block_class = *reinterpret_cast<size_t*>(block);
    const std::lock_guard<std::mutex> lock(mutex_);
    free_[block_class] = new (block) FreeBlock{free_[block_class]};
  }

 private:
  std::atomic<std::byte*> memory_{nullptr};
  std::mutex mutex_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::array<FreeBlock*, 64> free_{};  // free_[n]: blocks of 2^n bytes
};

constinit Arena arena;

void* OrThrow(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* TakeAligned(size_t size, size_t alignment) {
  if (!arena.started())
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  void* data = nullptr;  // CUDA aligns it to 256 bytes
  return cudaMallocManaged(&data, std::max<size_t>(size, 1)) == cudaSuccess ? data : nullptr;
}

void GiveAligned(void* data) {
  cudaPointerAttributes attributes{};
  if (arena.started() && cudaPointerGetAttributes(&attributes, data) == cudaSuccess &&
      attributes.type == cudaMemoryTypeManaged) {
    cudaFree(data);
  } else {
    std::free(data);
  }
}

}  // namespace

std::string StartManagedHeap() {
  int device = 0;
  int concurrent = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device);
  }
  if (error == cudaSuccess && concurrent == 0) {
    return "the host may not touch managed memory while this GPU is at work";
  }
  void* memory = nullptr;
  if (error == cudaSuccess) error = cudaMallocManaged(&memory, kArenaBytes);
  if (error != cudaSuccess) return std::string("managed memory: ") + cudaGetErrorString(error);
  arena.Start(static_cast<std::byte*>(memory));
  return "";
}

}  // namespace longstream

using longstream::arena;

void* operator new(size_t size) {
  return longstream::OrThrow(arena.started() ? arena.Take(size)
                                             : std::malloc(std::max<size_t>(size, 1)));
}

void* operator new(size_t size, std::align_val_t alignment) {
  return longstream::OrThrow(longstream::TakeAligned(size, static_cast<size_t>(alignment)));
}

void operator delete(void* data) noexcept {
  if (arena.Owns(data)) {
    arena.Give(data);
  } else {
    std::free(data);
  }
}

void operator delete(void* data, size_t) noexcept { operator delete(data); }

void operator delete(void* data, std::align_val_t) noexcept {
  if (data != nullptr) longstream::GiveAligned(data);
}

void operator delete(void* data, size_t, std::align_val_t alignment) noexcept {
  operator delete(data, alignment);
}
