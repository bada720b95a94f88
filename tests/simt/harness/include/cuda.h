// Replaces <cuda.h>: the driver functions that kernels/cuda uses (tests/simt/harness/driver.cc).
// cudaGetDriverEntryPointByVersion finds them.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_H_

#include <cstddef>

enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
};
using CUdevice = int;
using CUcontext = struct CUctx_st*;

CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
// A device's context exists while anyone holds it.
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
// Pushing a context that nobody holds is an error.
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext* context);
// The memory of the device whose context is on top of the stack of contexts.
CUresult cuMemGetInfo(size_t* free, size_t* total);

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_H_
