// The driver's contexts. Each device has one, whose holders are counted.
#include <cstring>
#include <map>
#include <vector>

#include "tests/simt/harness/include/cuda.h"
#include "tests/simt/harness/runtime.h"

struct CUctx_st {
  CUdevice device;
};

namespace {

using longstream::simt::TheMachine;

thread_local std::vector<CUcontext> stack;

int NumDevices() { return static_cast<int>(TheMachine().devices.size()); }

// The handle of a device's context, whether or not the context exists.
CUcontext ContextOf(CUdevice device) {
  static std::map<CUdevice, CUctx_st> contexts;
  return &contexts.try_emplace(device, CUctx_st{device}).first->second;
}

}  // namespace

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_DEVICE_UNAVAILABLE
              ? "CUDA-capable device(s) is/are busy or unavailable"
              : "unrecognized error code";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= NumDevices()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (device < 0 || device >= NumDevices()) return CUDA_ERROR_INVALID_DEVICE;
  if (TheMachine().devices[static_cast<size_t>(device)].is_taken) {
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  ++TheMachine().contexts[device];
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const auto found = TheMachine().contexts.find(device);
  if (found == TheMachine().contexts.end()) return CUDA_ERROR_INVALID_CONTEXT;
  if (--found->second == 0) TheMachine().contexts.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (TheMachine().contexts.count(context->device) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const CUdevice device = stack.back()->device;
  *free = longstream::simt::FreeBytes(device);
  *total = TheMachine().devices[static_cast<size_t>(device)].memory_bytes;
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const struct {
    const char* name;
    void* function;
  } functions[] = {
      {"cuGetErrorString", reinterpret_cast<void*>(cuGetErrorString)},
      {"cuDeviceGet", reinterpret_cast<void*>(cuDeviceGet)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(cuDevicePrimaryCtxRetain)},
      {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(cuDevicePrimaryCtxRelease)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(cuCtxPushCurrent)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(cuCtxPopCurrent)},
      {"cuMemGetInfo", reinterpret_cast<void*>(cuMemGetInfo)},
  };
  *found = cudaDriverEntryPointSymbolNotFound;
  *function = nullptr;
  for (const auto& entry : functions) {
    if (std::strcmp(entry.name, symbol) != 0) continue;
    *found = cudaDriverEntryPointSuccess;
    *function = entry.function;
  }
  return cudaSuccess;
}
