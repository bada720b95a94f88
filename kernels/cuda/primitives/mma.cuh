// Tensor-core products of 16 x 8 x 16 (bf16), 16 x 8 x 32 (int8) and 16 x 8 x 8 (TF32), and the
// loads that feed them. On a device each is one instruction. Elsewhere plain loops do the same and
// show what the instruction does; their sums are as inexact as a device's (tensor_sum.h).
//
// Lane 4 g + t of a warp holds these elements of A [16, 16] row-major, of B [16, 8] column-major
// (that is [8, 16] with k contiguous) and of C, D [16, 8] f32:
//
//   a[0] = A[g, 2t .. 2t+1]        a[1] = A[g+8, 2t ..]     b[0] = B[2t .. 2t+1, g]
//   a[2] = A[g, 2t+8 .. 2t+9]      a[3] = A[g+8, 2t+8 ..]   b[1] = B[2t+8 .. 2t+9, g]
//   d[0], d[1] = D[g, 2t .. 2t+1]                           d[2], d[3] = D[g+8, 2t .. 2t+1]
//
// (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".) With int8 a register
// holds four inputs, the first in the lowest byte: 4t .. 4t+3 in place of 2t .. 2t+1, and 4t+16 ...
// in place of 2t+8 ... ("Matrix fragments for mma.m16n8k32".) With TF32, A is [16, 8] and B [8, 8]:
//
//   a[0] = A[g, t]    a[1] = A[g+8, t]    a[2] = A[g, t+4]    a[3] = A[g+8, t+4]
//   b[0] = B[t, g]    b[1] = B[t+4, g]                        d as above
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_MMA_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_MMA_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

#ifndef __CUDACC__
// The registers that this lane multiplies. d[i] is the sum of the products of x[i / 2] and
// y[i % 2], which are eight registers each.
struct MmaOperands {
  uint32_t x[2][8];
  uint32_t y[2][8];

  MmaOperands(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    struct Fragments {
      uint32_t a[4];
      uint32_t b[2];
    };
    const simt::Gathered<Fragments> of({{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    for (int k = 0; k < 4; ++k) {
      const Fragments rows = of[lane / 4 * 4 + k];
      const Fragments even = of[lane % 4 * 8 + k], odd = of[lane % 4 * 8 + 4 + k];
      for (int half = 0; half < 2; ++half) {
        x[0][4 * half + k] = rows.a[2 * half];
        x[1][4 * half + k] = rows.a[2 * half + 1];
        y[0][4 * half + k] = even.b[half];
        y[1][4 * half + k] = odd.b[half];
      }
    }
  }
};

// d += A B. multiply(x, y, products) computes the kProducts products of the numbers in the
// registers x and y.
template <int kProducts, typename Multiply>
void MultiplyFragments(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                       const Multiply& multiply) {
  const MmaOperands operands(a, b);
  for (int i = 0; i < 4; ++i) {
    double addends[8 * kProducts + 1];
    for (int k = 0; k < 8; ++k) {
      multiply(operands.x[i / 2][k], operands.y[i % 2][k], addends + k * kProducts);
    }
    addends[8 * kProducts] = d[i];
    d[i] = simt::TensorSum(addends);
  }
}
#endif

// d += A B, bf16 products summed in f32. All lanes of the warp must call it together.
__device__ __forceinline__ void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  MultiplyFragments<2>(d, a, b, [](uint32_t x, uint32_t y, double* products) {
    products[0] = double{LowBF16(x)} * LowBF16(y);
    products[1] = double{HighBF16(x)} * HighBF16(y);
  });
#endif
}

// d += A B for A [16, 32] and B [32, 8] of int8, exact in int32. All lanes of the warp must call it
// together.
__device__ __forceinline__ void MultiplyAdd(int32_t (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  const MmaOperands operands(a, b);
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 8; ++k) {
      const uint32_t x = operands.x[i / 2][k], y = operands.y[i % 2][k];
      for (int byte = 0; byte < 4; ++byte) {
        d[i] +=
            int32_t{static_cast<int8_t>(x >> (8 * byte))} * static_cast<int8_t>(y >> (8 * byte));
      }
    }
  }
#endif
}

// An f32 of which only these bits are set is a TF32: 11 significant bits.
inline constexpr uint32_t kTF32Bits = 0xffffe000u;

// d += A B, TF32 products summed in f32. All lanes of the warp must call it together.
__device__ __forceinline__ void MultiplyAddTF32(float (&d)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  MultiplyFragments<1>(d, a, b, [](uint32_t x, uint32_t y, double* products) {
    products[0] = double{__uint_as_float(x & kTF32Bits)} * __uint_as_float(y & kTF32Bits);
  });
#endif
}

// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane i gives the address of row
// i % 8 of matrix i / 8 (16 bytes, 16-byte aligned). Lane 4 g + t gets elements 2t, 2t + 1 of row g
// of each matrix; of 8 x 4 matrices of f32 it gets element t of row g.
__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], const void* row) {
#ifdef __CUDA_ARCH__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
#elif !defined(__CUDACC__)
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const simt::Gathered<const void*> rows(row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    r[matrix] = static_cast<const uint32_t*>(rows[8 * matrix + lane / 4])[lane % 4];
  }
#endif
}

// Loads as LoadMatrices does, but transposes each matrix: lane 4 g + t gets elements g of rows 2t
// and 2t + 1.
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&r)[4], const void* row) {
#ifdef __CUDA_ARCH__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
#elif !defined(__CUDACC__)
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const simt::Gathered<const void*> rows(row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    const int from = 8 * matrix + lane % 4 * 2;
    const uint32_t low = static_cast<const uint16_t*>(rows[from])[lane / 4];
    const uint32_t high = static_cast<const uint16_t*>(rows[from + 1])[lane / 4];
    r[matrix] = low | (high << 16);
  }
#endif
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_MMA_CUH_
