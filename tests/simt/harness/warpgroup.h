// Products of a warpgroup (PTX: wgmma), four neighbouring warps that compute 64 rows together.
//
// They are asynchronous: a device reads shared memory and registers, and writes the results, at any
// time between the instruction and the wait for it. Here each group of products, that is what is
// committed together, is either computed at once, from what fences have made visible to it, or when
// it is waited for, from what is there then; both come up in every kernel of some groups. A missing
// fence or wait, an operand overwritten or a result read too early thus gives wrong results.
//
// What ends the process: warps of a group at different operations, operands that differ between
// them, products without a fence since the registers could last be accessed, products left
// unawaited, a descriptor with bits that have no meaning.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_WARPGROUP_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_WARPGROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace longstream::simt {

inline constexpr int kWarpgroup = 128;
inline constexpr int kProductRows = 64;   // of A and D
inline constexpr int kProductDepth = 16;  // columns of A, rows of B: 32 bytes of bf16

// d = A B, or d + A B, of bf16 in f32: A [64, 16], B [16, columns]. What a thread gives.
struct Product {
  // Of 8 columns 4 results: those of rows g and g + 8 of the warp's 16, columns 2t and 2t + 1, in
  // lane 4 g + t, as those of mma.m16n8k16 are (kernels/cuda/primitives/mma.cuh).
  float* d = nullptr;
  int columns = 0;
  const uint32_t* a = nullptr;  // [4], as of mma.m16n8k16; nullptr: a_matrix
  uint64_t a_matrix = 0;        // descriptors (kernels/cuda/primitives/wgmma.cuh)
  uint64_t b_matrix = 0;
  bool adds = true;
  bool b_is_mn_major = false;  // a row of B lies in one piece, not a column
};

// Where bf16 element `k` of row or column `mn` lies, in bytes of the block's shared memory.
size_t PlaceOf(uint64_t matrix, bool is_mn_major, int mn, int k);

// Those of one warpgroup.
class Products {
 public:
  using Given = std::array<Product, kWarpgroup>;

  void Fence() { is_fenced_ = true; }
  // shared: the block's memory; visible: as much of it as products see.
  void Issue(const Given& given, const std::byte* shared, const std::byte* visible);
  void Commit();
  // Until at most the last `groups` commits are under way.
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

// Below: called by kernels, by all threads of a warpgroup.

// What a thread has written to shared memory can be read by products behind the block's next
// barrier, when all its threads have called this before it.
void FenceSharedWrites();
void FenceProducts();
void Multiply(const Product& product);
void CommitProducts();
void WaitForProducts(size_t groups);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_WARPGROUP_H_
