// Products of a warpgroup, which is four neighbouring warps; the number of the first one in the
// block is a multiple of four. They multiply 64 rows by 64 or 128 columns of bf16, 16 products
// deep, into f32 (PTX: wgmma, on compute capability 9.0 only). On a device each product is one
// instruction. Elsewhere tests/simt/harness/warpgroup.h reads the same operands.
//
//   d = a b      d += a b      a [64, 16], b [16, 8 kTiles]
//
// Warp w of the group has rows 16 w to 16 w + 15. Its part of d is in d[tile], with 8 columns in
// each tile, in the layout of mma.cuh. If a is in registers, the warp's part of a is in the layout
// of mma.cuh too. Matrices in shared memory are named by descriptors of 64 bits (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Shared Memory Layout"):
//
//   bits    13:0 beginning     29:16 leading offset     45:32 stride offset, each in 16 bytes
//          51:49 0: patterns begin at multiples of 1024 bytes          63:62 1: 128-byte swizzle
//
// Products run asynchronously. FenceProducts comes before them, after everything that the threads
// have done with the products' registers. From there to the WaitForProducts that covers their
// group, the products may read and write registers and shared memory at any time. They see a
// thread's writes to shared memory if the thread has called FenceSharedWrites and a barrier
// followed. After that wait, memory that the products have read may be overwritten at once.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_WGMMA_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_WGMMA_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/shared.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "compute capability 9.0 is compiled for as sm_90a: sm_90 has no wgmma"
#endif

namespace longstream::cuda {

// Whether the code that is being compiled may contain these products.
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWgmma = true;
#else
inline constexpr bool kHasWgmma = false;
#endif

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;
inline constexpr int kProductDepth = 16;

// A matrix [kRows, 64 n] of bf16 in shared memory in the layout that products take, 1024-byte
// aligned: panels of 64 columns, one after the other. A row of a panel has 128 bytes in pieces of
// 16 bytes. The row's number permutes them: piece c of row r is at the place of piece c ^ r % 8.
// The pattern repeats after eight rows. Neither the pieces of a row nor those of a column are in
// the same bank.
template <int kRows>
struct Panels {
  static_assert(kRows % 8 == 0);
  static constexpr int kWidth = 64;
  static constexpr int kSize = kRows * kWidth;
  static constexpr int kPatternBytes = 8 * kWidth * static_cast<int>(sizeof(BF16));
  static constexpr int kPanelBytes = kSize * static_cast<int>(sizeof(BF16));

  // The place of an element. Eight elements are in one piece if the first one's column is a
  // multiple of eight. The function uses masks, because the remainder of a signed number takes five
  // instructions.
  static __device__ __forceinline__ int Place(int row, int column) {
    const int piece = (column >> 3 & 7) ^ (row & 7);
    return (column >> 6) * kSize + row * kWidth + piece * 8 + (column & 7);
  }

  // The descriptor of 16 columns of a matrix, from `column` on (a multiple of 16), and of its rows
  // from `row` on (a multiple of 8). These rows are the rows of a or the columns of b. PTX calls
  // this layout K-major: the stride offset leads eight rows further. The leading offset would lead
  // to the next 16 bytes of a row; it is not read in swizzled layouts.
  static __device__ __forceinline__ uint64_t AlongRows(const BF16* panels, int row, int column) {
    return Descriptor(panels, 16, column / kWidth * kSize + row * kWidth + column % kWidth);
  }

  // The descriptor of 16 rows of a matrix, from `row` on (a multiple of 8). The columns of the
  // matrix are the columns of b. PTX calls this layout MN-major: the leading offset leads 64
  // columns further, the stride offset eight rows further.
  static __device__ __forceinline__ uint64_t AcrossRows(const BF16* panels, int row) {
    return Descriptor(panels, kPanelBytes, row * kWidth);
  }

 private:
  // The beginning of the matrix is added last, and to the lower half of the descriptor only. So the
  // descriptors of one product differ by small constants. No address reaches 2^18.
  static __device__ __forceinline__ uint64_t Descriptor(const BF16* panels, int leading,
                                                        int first_element) {
    constexpr uint32_t kHigh = kPatternBytes / 16 | 1u << 30;
    const uint32_t low = (SharedAddress(panels) / 16 | static_cast<uint32_t>(leading) / 16 << 16) +
                         static_cast<uint32_t>(first_element) * sizeof(BF16) / 16;
    return uint64_t{kHigh} << 32 | low;
  }
};

// Must be called for registers that products have written or will read. The compiler cannot move
// uses of them past this call. Only ptxas, which knows products, may do so.
__device__ __forceinline__ void Pin([[maybe_unused]] float (&x)[4]) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])::"memory");
#endif
}
__device__ __forceinline__ void Pin([[maybe_unused]] uint32_t (&x)[4]) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])::"memory");
#endif
}
template <typename T, int kCount>
__device__ __forceinline__ void Pin(T (&values)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) Pin(values[i]);
}

// Makes a thread's writes to shared memory visible to products. Each thread that has written must
// call it. Asynchronous copies count as writes of the thread if it has waited for them.
__device__ __forceinline__ void FenceSharedWrites() {
#if !defined(__CUDACC__)
  simt::FenceSharedWrites();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Must come before the products. All threads of the warpgroup must call this function, those below
// and the products together.
__device__ __forceinline__ void FenceProducts() {
#if !defined(__CUDACC__)
  simt::FenceProducts();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Ends a group of products.
__device__ __forceinline__ void CommitProducts() {
#if !defined(__CUDACC__)
  simt::CommitProducts();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most the last kGroups groups of products are under way.
template <int kGroups>
__device__ __forceinline__ void WaitForProducts() {
#if !defined(__CUDACC__)
  simt::WaitForProducts(kGroups);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
#endif
}

// The registers of d, in the instruction's order.
#define LONGSTREAM_TILE(d, i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define LONGSTREAM_8_TILES(d, i)                                                       \
  LONGSTREAM_TILE(d, i), LONGSTREAM_TILE(d, i + 1), LONGSTREAM_TILE(d, i + 2),         \
      LONGSTREAM_TILE(d, i + 3), LONGSTREAM_TILE(d, i + 4), LONGSTREAM_TILE(d, i + 5), \
      LONGSTREAM_TILE(d, i + 6), LONGSTREAM_TILE(d, i + 7)
#define LONGSTREAM_REGISTERS_0_TO_31                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, " \
  "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, " \
  "%28, %29, %30, %31"
#define LONGSTREAM_REGISTERS_32_TO_63                                      \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
  "%60, %61, %62, %63"

// d = a b or, if `adds`, d += a b; a and b are read along rows (Panels). The numbers after the
// operands mean: neither a nor b is negated, neither is read across rows.
__device__ __forceinline__ void StartProduct(float (&d)[16][4], uint64_t a, uint64_t b, bool adds) {
#if !defined(__CUDACC__)
  simt::Multiply({.d = d[0], .columns = 128, .a_matrix = a, .b_matrix = b, .adds = adds});
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %66, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{" LONGSTREAM_REGISTERS_0_TO_31 ", " LONGSTREAM_REGISTERS_32_TO_63
      "}, %64, %65, adds, 1, 1, 0, 0;\n}"
      : LONGSTREAM_8_TILES(d, 0), LONGSTREAM_8_TILES(d, 8)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
#endif
}

// d += a b; a is in registers, b is read across rows, as the last number says.
__device__ __forceinline__ void StartProduct(float (&d)[16][4], const uint32_t (&a)[4],
                                             uint64_t b) {
#if !defined(__CUDACC__)
  simt::Multiply({.d = d[0], .columns = 128, .a = a, .b_matrix = b, .b_is_mn_major = true});
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.eq.b32 adds, 0, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{" LONGSTREAM_REGISTERS_0_TO_31 ", " LONGSTREAM_REGISTERS_32_TO_63
      "}, {%64, %65, %66, %67}, %68, adds, 1, 1, 1;\n}"
      : LONGSTREAM_8_TILES(d, 0), LONGSTREAM_8_TILES(d, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}
__device__ __forceinline__ void StartProduct(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
#if !defined(__CUDACC__)
  simt::Multiply({.d = d[0], .columns = 64, .a = a, .b_matrix = b, .b_is_mn_major = true});
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.eq.b32 adds, 0, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{" LONGSTREAM_REGISTERS_0_TO_31 "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 1;\n}"
      : LONGSTREAM_8_TILES(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

#undef LONGSTREAM_TILE
#undef LONGSTREAM_8_TILES
#undef LONGSTREAM_REGISTERS_0_TO_31
#undef LONGSTREAM_REGISTERS_32_TO_63

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_WGMMA_CUH_
