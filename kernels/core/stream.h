// A stream: where an op runs, and the scratch memory that it may use.
#ifndef LONGSTREAM_KERNELS_CORE_STREAM_H_
#define LONGSTREAM_KERNELS_CORE_STREAM_H_

#include <cstddef>

#include "kernels/core/executor.h"

namespace longstream {

enum class OpStatus : int {
  kOk = 0,
  kUnsupported = 1,  // the implementation does not serve these arguments
  kDeviceError = 2,  // the device reported a failure; the op's outputs are undefined
  kDeviceLost = 3,   // the device reported a failure and can no longer be used
};

// Ops of one stream run in the order of their calls. An op allocates nothing. It takes scratch from
// `workspace`, and states the size that it needs as a function of its arguments.
//
// A failure is sticky: once `status` is not kOk, later ops of the stream do nothing. So a step
// checks `status` once at its end, which keeps a forward pass readable. A stream is used by one
// thread at a time.
struct Stream {
  Executor executor;               // CPU: the threads that run the ops
  void* native = nullptr;          // CUDA: a cudaStream_t
  bool overlaps = false;           // CUDA: a kernel may start before the previous one has ended
  bool wgmma = false;              // CUDA: the device has wgmma, and kernels shall use it
  std::byte* workspace = nullptr;  // 64-byte aligned, in the device's memory
  size_t workspace_bytes = 0;
  OpStatus status = OpStatus::kOk;

  void Fail(OpStatus failure) {
    if (status == OpStatus::kOk) status = failure;
  }
  bool ok() const { return status == OpStatus::kOk; }
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_STREAM_H_
