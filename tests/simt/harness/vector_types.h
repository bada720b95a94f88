// The built-in vector types of CUDA that kernels use.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_VECTOR_TYPES_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_VECTOR_TYPES_H_

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  unsigned x, y, z;
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_VECTOR_TYPES_H_
