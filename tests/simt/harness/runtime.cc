// Streams are queues of work that nobody has waited for yet; graphs are lists of work.
#include "tests/simt/harness/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tests/simt/harness/launch_limits.h"
#include "tests/simt/harness/machine_settings.h"

using longstream::simt::Work;

// A stream. Between cudaStreamBeginCapture and cudaStreamEndCapture it records its work. Calls that
// must not happen meanwhile spoil the recording.
struct CUstream_st {
  explicit CUstream_st(int of_device) : device(of_device) {}
  const int device;
  std::deque<Work> work;
  uint64_t num_enqueued = 0;
  bool records = false;
  bool is_spoilt = false;
  std::vector<Work> recorded;
};
struct CUevent_st {
  cudaStream_t stream = nullptr;
  uint64_t place = 0;  // pieces of work before the event
};
struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
  size_t in_flight = 0;
};

namespace longstream::simt {
namespace {

std::set<cudaStream_t>& Streams() {
  static std::set<cudaStream_t> streams;
  return streams;
}
struct Allocation {
  int device;
  size_t size;
};
std::map<void*, Allocation>& Allocations() {
  static std::map<void*, Allocation> allocations;
  return allocations;
}

// The device of the calling thread.
thread_local int current_device = 0;

// A launch that may overlap begins before the kEarlierKernels kernels that precede it.
constexpr size_t kEarlierKernels = 2;

// Does the work in its order, but launches that may overlap begin early.
void Do(const std::vector<Work>& list) {
  std::vector<std::unique_ptr<Running>> begun(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_kernel()) {
      list[i].run();
      continue;
    }
    for (size_t next = i + 1; next < list.size() && next <= i + kEarlierKernels; ++next) {
      if (!list[next].is_kernel() || !list[next].launch.overlaps) break;
      if (begun[next] != nullptr) continue;
      begun[next] = std::make_unique<Running>(list[next].launch, list[next].run);
      begun[next]->Begin();
    }
    if (begun[i] == nullptr) begun[i] = std::make_unique<Running>(list[i].launch, list[i].run);
    begun[i]->Finish();
  }
}

// Does work until `count` pieces of it have been done since the stream was made.
void RunUntil(CUstream_st& stream, uint64_t count) {
  const uint64_t num_done = stream.num_enqueued - stream.work.size();
  if (count <= num_done) return;
  const auto end = stream.work.begin() + static_cast<ptrdiff_t>(count - num_done);
  const std::vector<Work> list(std::move_iterator(stream.work.begin()), std::move_iterator(end));
  stream.work.erase(stream.work.begin(), end);
  Do(list);
}

// Spoils the recordings of all streams that record. Returns whether there was one.
bool SpoilsRecording() {
  bool spoils = false;
  for (const cudaStream_t stream : Streams()) {
    if (!stream->records) continue;
    stream->is_spoilt = spoils = true;
  }
  return spoils;
}

}  // namespace

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

bool KernelsCanOverlap(cudaStream_t stream) {
  const auto device = static_cast<size_t>(stream == nullptr ? current_device : stream->device);
  const std::vector<MachineDevice>& devices = TheMachine().devices;
  return device < devices.size() && devices[device].major >= 9;
}

bool IsCurrent(cudaStream_t stream) {
  return stream == nullptr || stream->device == current_device;
}

size_t FreeBytes(int device) {
  size_t used = 0;
  for (const auto& [memory, allocation] : Allocations()) {
    if (allocation.device == device) used += allocation.size;
  }
  const size_t total = TheMachine().devices.at(static_cast<size_t>(device)).memory_bytes;
  return total - std::min(total, used);
}

void Enqueue(cudaStream_t stream, Work work) {
  if (stream == nullptr) return Do({std::move(work)});
  if (stream->records) return stream->recorded.push_back(std::move(work));
  ++stream->num_enqueued;
  stream->work.push_back(std::move(work));
}

}  // namespace longstream::simt

using longstream::simt::Allocations;
using longstream::simt::current_device;
using longstream::simt::Do;
using longstream::simt::Enqueue;
using longstream::simt::Fail;
using longstream::simt::FreeBytes;
using longstream::simt::RunUntil;
using longstream::simt::SpoilsRecording;
using longstream::simt::Streams;
using longstream::simt::TheMachine;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unrecognized error code";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

// --- devices

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheMachine().driver_version;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  longstream::simt::ReadMachineSettings(TheMachine());
  *count = 0;
  if (TheMachine().driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
  if (TheMachine().devices.empty()) return cudaErrorNoDevice;
  *count = static_cast<int>(TheMachine().devices.size());
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  *properties = TheMachine().devices[static_cast<size_t>(device)];
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return cudaErrorInvalidDevice;
  if (TheMachine().devices[static_cast<size_t>(device)].is_taken) {
    return cudaErrorDevicesUnavailable;
  }
  TheMachine().contexts.try_emplace(device, 1);
  current_device = device;
  return cudaSuccess;
}

// --- memory

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = TheMachine().devices[static_cast<size_t>(current_device)].memory_bytes;
  *free = FreeBytes(current_device);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = nullptr;
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  const size_t size = (bytes + 255) / 256 * 256;
  if (size > FreeBytes(current_device)) return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(256, size);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xff, size);
  Allocations()[*memory] = {current_device, size};
  return cudaSuccess;
}
// Waits for the device, as the real cudaFree does.
cudaError_t cudaFree(void* memory) {
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  for (const cudaStream_t stream : Streams()) RunUntil(*stream, stream->num_enqueued);
  if (Allocations().erase(memory) == 0) Fail("cudaFree of what was not allocated");
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  *memory = std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const auto copy = [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  };
  Enqueue(stream, {copy, {}});
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const auto set = [=] {
    if (bytes > 0) std::memset(to, value, bytes);
  };
  Enqueue(stream, {set, {}});
  return cudaSuccess;
}

// --- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st(current_device);
  Streams().insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RunUntil(*stream, stream->num_enqueued);
  Streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return cudaSuccess;
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  RunUntil(*stream, stream->num_enqueued);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  *event = {stream, stream->num_enqueued};
  return cudaSuccess;
}
// The stream's later work first does the other stream's work before the event.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  if (event->stream == nullptr) return cudaSuccess;
  const auto wait = [other = event->stream, place = event->place] { RunUntil(*other, place); };
  Enqueue(stream, {wait, {}});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (SpoilsRecording()) return cudaErrorStreamCaptureUnsupported;
  if (event->stream != nullptr) RunUntil(*event->stream, event->place);
  return cudaSuccess;
}

// --- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->records) Fail("a stream that records already begins a recording");
  stream->records = true;
  stream->is_spoilt = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->records) Fail("a stream that records nothing ends a recording");
  stream->records = false;
  std::vector<Work> recorded = std::exchange(stream->recorded, {});
  *graph = nullptr;
  const bool overlaps = std::any_of(recorded.begin(), recorded.end(),
                                    [](const Work& work) { return work.launch.overlaps; });
  if (stream->is_spoilt || !TheMachine().can_record ||
      (overlaps && !TheMachine().can_record_overlaps)) {
    return cudaErrorStreamCaptureInvalidated;
  }
  *graph = new CUgraph_st{std::move(recorded)};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  ++TheMachine().num_graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  if (executable->in_flight > 0) Fail("a graph in flight is destroyed");
  --TheMachine().num_graphs;
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++TheMachine().graph_launches;
  ++executable->in_flight;
  const auto launch = [executable] {
    Do(executable->work);
    --executable->in_flight;
  };
  Enqueue(stream, {launch, {}});
  return cudaSuccess;
}
