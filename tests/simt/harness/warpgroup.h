// Products of a warpgroup (PTX: wgmma): four neighbouring warps compute 64 rows together.
//
// They are asynchronous. A device reads shared memory and registers, and writes the results, at any
// time between the instruction and the wait for it. Here a group of products (those that are
// committed together) is computed in one of two ways: at once, from the memory that fences have
// made visible to it; or when it is waited for, from the memory of that moment. Every kernel with
// several groups has both. So a missing fence or wait, an operand that is overwritten and a result
// that is read too early give wrong results.
//
// These mistakes end the process: warps of a group at different operations; operands that differ
// between them; products without a fence since the registers could last be accessed; products that
// nobody waits for; a descriptor with bits that have no meaning.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_WARPGROUP_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_WARPGROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace longstream::simt {

inline constexpr int kWarpgroup = 128;
inline constexpr int kProductRows = 64;   // rows of A and D
inline constexpr int kProductDepth = 16;  // columns of A, rows of B: 32 bytes of bf16

// One thread's part of d = A B, or of d = d + A B, with bf16 factors and f32 sums: A [64, 16], B
// [16, columns].
struct Product {
  // Of each 8 columns the thread has 4 results: lane 4 g + t has rows g and g + 8 of the warp's 16
  // at columns 2t and 2t + 1, as in mma.m16n8k16 (kernels/cuda/primitives/mma.cuh).
  float* d = nullptr;
  int columns = 0;
  const uint32_t* a = nullptr;  // [4], as in mma.m16n8k16; nullptr: a_matrix is used
  uint64_t a_matrix = 0;        // descriptors (kernels/cuda/primitives/wgmma.cuh)
  uint64_t b_matrix = 0;
  bool adds = true;
  bool b_is_mn_major = false;  // a row of B, not a column, is contiguous
};

// The place of bf16 element `k` of row or column `mn`, in bytes of the block's shared memory.
size_t PlaceOf(uint64_t matrix, bool is_mn_major, int mn, int k);

// The products of one warpgroup.
class Products {
 public:
  using Given = std::array<Product, kWarpgroup>;

  void Fence() { is_fenced_ = true; }
  // shared: the block's memory; visible: the state of it that products see.
  void Issue(const Given& given, const std::byte* shared, const std::byte* visible);
  void Commit();
  // Waits until at most the last `groups` commits are under way.
  void Wait(size_t groups);
  bool all_awaited() const { return issued_.empty(); }

 private:
  struct Issued {
    Given given;
    const std::byte* shared;
    bool is_done;
    size_t group;
  };

  static void Compute(const Given& given, const std::byte* shared);

  std::vector<Issued> issued_;
  size_t commits_ = 0;
  bool is_fenced_ = false;
};

// Kernels call the functions below, by all threads of a warpgroup.

// Products after the block's next barrier can read a thread's writes to shared memory if the thread
// has called this before the barrier.
void FenceSharedWrites();
void FenceProducts();
void Multiply(const Product& product);
void CommitProducts();
void WaitForProducts(size_t groups);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_WARPGROUP_H_
