// Where an op runs and the scratch memory it may use.
#ifndef LONGSTREAM_KERNELS_CORE_STREAM_H_
#define LONGSTREAM_KERNELS_CORE_STREAM_H_

#include <cstddef>

#include "kernels/core/executor.h"

namespace longstream {

enum class OpStatus : int {
  kOk = 0,
  kUnsupported = 1,  // arguments outside what the implementation serves
  kDeviceError = 2,  // the device reported a failure; what it was to write is undefined
  kDeviceLost = 3,   // it did, and serves nothing any more
};

// Ops of one stream run in the order of their calls. An op allocates nothing: its scratch comes
// from `workspace`, whose size each op states as a function of its arguments.
//
// A failure is sticky: once `status` is not kOk, later ops of the stream do nothing. A step checks
// it once at its end, which keeps a forward pass readable. Used by one thread at a time.
struct Stream {
  Executor executor;               // CPU: the threads
  void* native = nullptr;          // CUDA: a cudaStream_t
  bool overlaps = false;           // CUDA: a kernel may start before the one before it has ended
  bool wgmma = false;              // CUDA: the device has it, and it is to be used
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
