// The part of the CUDA runtime that kernels/cuda uses, for the SIMT harness. Memory of the "device"
// is memory of the host.
//
// Work of a stream is done as late as possible: when the host waits for it. So a host that reads
// results without waiting sees the old bytes, and if it changes a buffer without waiting, the work
// computes with the changed bytes. Work recorded into a graph keeps the arguments of its launch.
// The stream nullptr does its work at once.
//
// The first block of a kernel that may overlap begins before the two kernels before it. So if it
// reads values before it awaits those kernels, the values are old. If it writes values before it
// awaits them, those kernels read the new values. Graphs overlap with nothing.
//
// Calls return the errors that a caller has to handle: no driver or device, no memory, calls that
// must not happen while a stream records, a launch while another device than the stream's is
// current. Other misuse ends the process with a sentence. Not thread-safe.
//
// A device has a context if it was current once, or while someone holds its context
// (include/cuda.h).
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_RUNTIME_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/simt/harness/block.h"
#include "tests/simt/harness/vector_types.h"

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

struct cudaDeviceProp {
  char name[256] = "SIMT harness";
  int major = 9;
  int minor = 0;
  size_t sharedMemPerBlockOptin = 232448;
};

namespace longstream::simt {

struct MachineDevice : cudaDeviceProp {
  size_t memory_bytes = size_t{256} << 20;
  bool is_taken = false;  // another process has the device for itself
};

// The machine that the runtime finds, which tests may change, and records of the runtime's calls,
// which tests may read.
struct Machine {
  int driver_version = CUDART_VERSION;  // 0: there is no driver
  std::vector<MachineDevice> devices = {{}};
  bool can_record = true;           // false: the end of a recording fails
  bool can_record_overlaps = true;  // false: the end of a recording fails if a launch may overlap
  std::string cublaslt_problem;     // why cuBLASLt cannot be loaded

  // The number of holders of each device's context; 1 if it has been current.
  std::map<int, int> contexts;
  size_t num_graphs = 0;  // graphs that can be launched
  size_t graph_launches = 0;
};
Machine& TheMachine();

// A piece of work of a stream. For a launch, `run` is the body of each thread.
struct Work {
  std::function<void()> run;
  Launch launch;  // kernel == nullptr: not a launch
  bool is_kernel() const { return launch.kernel != nullptr; }
};

// Does `work` on the stream, or records it.
void Enqueue(cudaStream_t stream, Work work);

// Whether the stream's device is of compute capability 9.0 or more.
bool KernelsCanOverlap(cudaStream_t stream);
// Whether the stream's device is current.
bool IsCurrent(cudaStream_t stream);

// The free bytes of a device.
size_t FreeBytes(int device);

}  // namespace longstream::simt

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1
};
inline constexpr unsigned long long cudaEnableDefault = 0;
// Finds the functions of include/cuda.h.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found);

// The memory is filled with 0xff, so a value that nobody has written is NaN.
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream = nullptr);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed = 0;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

// A launch that may overlap is an error on a device that does not support overlap.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  bool overlaps = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    overlaps |= config->attrs[i].val.programmaticStreamSerializationAllowed != 0;
  }
  if (!longstream::simt::IsCurrent(config->stream)) return cudaErrorInvalidResourceHandle;
  if (overlaps && !longstream::simt::KernelsCanOverlap(config->stream)) {
    return cudaErrorNotSupported;
  }
  longstream::simt::Enqueue(
      config->stream,
      {[kernel, values = std::tuple<Parameters...>(arguments...)] { std::apply(kernel, values); },
       {reinterpret_cast<const void*>(kernel), config->gridDim, config->blockDim,
        config->dynamicSmemBytes, overlaps}});
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
  longstream::simt::AllowSharedBytes(reinterpret_cast<const void*>(kernel),
                                     static_cast<size_t>(bytes));
  return cudaSuccess;
}

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_RUNTIME_H_
