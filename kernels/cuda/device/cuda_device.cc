// A GPU as a device: memory, copies, a stream, events.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernels/core/device.h"
#include "kernels/cuda/device/cuda_graphs.h"
#include "kernels/cuda/device/device_choice.h"

namespace longstream {
namespace {

// An upper bound of the GPU memory that is used in addition to the allocations here. While
// algorithms are timed it includes 128 MiB, or the operands of a product if they are larger
// (CublasLtAlgorithms). It includes 48 graphs of about 1 MB; code that is loaded when it is first
// launched, some 100 MB with that of cuBLASLt; the stacks of all threads that the SMs hold, 264 MiB
// for each KiB of a stack; and up to 2 MiB for each allocation. A model's pages are two allocations
// a layer.
constexpr size_t kOwnBytes = size_t{1} << 30;

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, cudaStream_t stream, bool overlap, bool records, bool wgmma)
      : ordinal_(ordinal), stream_(stream), graphs_(stream, overlap, records), wgmma_(wgmma) {}
  ~CudaDevice() override {
    MakeCurrent();
    graphs_.Clear();
    cudaStreamDestroy(stream_);
  }

  bool host_memory() const override { return false; }

  uint64_t free_bytes() override {
    MakeCurrent();
    size_t free = 0;
    size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }
  uint64_t own_bytes() override {
    MakeCurrent();
    size_t free = 0;
    size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? std::min(kOwnBytes, total / 16) : 0;
  }

  void* Allocate(size_t size) override {
    MakeCurrent();
    void* data = nullptr;
    if (cudaMalloc(&data, size) != cudaSuccess) {
      cudaGetLastError();  // clears the error, which the next launch would report again
      return nullptr;
    }
    Zero(data, size);
    return data;
  }
  void Release(void* data, size_t) override {
    MakeCurrent();
    Note(cudaStreamSynchronize(stream_));
    Note(cudaFree(data));
  }

  void* AllocateStaging(size_t size) override {
    MakeCurrent();
    void* data = nullptr;
    if (cudaMallocHost(&data, size) == cudaSuccess) return data;
    cudaGetLastError();
    return nullptr;
  }
  void ReleaseStaging(void* data) override {
    MakeCurrent();
    Note(cudaFreeHost(data));
  }

  void Upload(void* to, const void* from, size_t size) override {
    Transfer(to, from, size, cudaMemcpyHostToDevice);
  }
  void Download(void* to, const void* from, size_t size) override {
    Transfer(to, from, size, cudaMemcpyDeviceToHost);
  }
  void Copy(void* to, const void* from, size_t size) override {
    Transfer(to, from, size, cudaMemcpyDeviceToDevice);
  }
  void Zero(void* data, size_t size) override {
    MakeCurrent();
    Note(cudaMemsetAsync(data, 0, size, stream_));
  }

  Stream MakeStream(const Executor& executor, std::byte* workspace,
                    size_t workspace_bytes) override {
    MakeCurrent();
    return {.executor = executor,
            .native = stream_,
            .overlaps = graphs_.overlap(),
            .wgmma = wgmma_,
            .workspace = workspace,
            .workspace_bytes = workspace_bytes};
  }

  std::unique_ptr<DeviceEvent> MakeEvent() override { return std::make_unique<Event>(*this); }

  std::unique_ptr<TransferQueue> MakeTransferQueue() override {
    MakeCurrent();
    cudaStream_t stream = nullptr;
    cudaEvent_t mark = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess) {
      if (cudaEventCreateWithFlags(&mark, cudaEventDisableTiming) == cudaSuccess) {
        return std::make_unique<Transfers>(*this, stream, mark);
      }
      cudaStreamDestroy(stream);
    }
    cudaGetLastError();
    return nullptr;
  }

  OpStatus Synchronize() override {
    MakeCurrent();
    Note(cudaStreamSynchronize(stream_));
    return std::exchange(failed_, false) ? Failure() : OpStatus::kOk;
  }

  OpStatus Repeat(uint64_t key, const std::function<OpStatus()>& work) override {
    MakeCurrent();
    std::string warning;
    const OpStatus status = graphs_.Repeat(key, work, &warning);
    if (!warning.empty()) Warn("cuda:" + std::to_string(ordinal_) + ": " + warning);
    return status;
  }
  void ForgetWork() override {
    MakeCurrent();
    graphs_.Clear();
  }

 private:
  class Event final : public DeviceEvent {
   public:
    explicit Event(CudaDevice& device) : device_(device) {
      device_.MakeCurrent();
      device_.Note(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    }
    ~Event() override {
      if (event_ != nullptr) cudaEventDestroy(event_);
    }
    void Record() override {
      device_.MakeCurrent();
      device_.Note(cudaEventRecord(event_, device_.stream_));
      failed_ = std::exchange(device_.failed_, false);
    }
    OpStatus Wait() override {
      device_.MakeCurrent();
      failed_ |= cudaEventSynchronize(event_) != cudaSuccess;
      return failed_ ? device_.Failure() : OpStatus::kOk;
    }

   private:
    CudaDevice& device_;
    cudaEvent_t event_ = nullptr;
    bool failed_ = false;
  };

  // Copies on a stream of its own. Another thread than the device's may use it, so it touches no
  // member of the device but the constant ordinal.
  class Transfers final : public TransferQueue {
   public:
    Transfers(CudaDevice& device, cudaStream_t stream, cudaEvent_t mark)
        : device_(device), stream_(stream), mark_(mark) {}
    ~Transfers() override {
      device_.MakeCurrent();
      cudaStreamSynchronize(stream_);
      cudaEventDestroy(mark_);
      cudaStreamDestroy(stream_);
    }
    void FollowDevice() override {
      Note(cudaSetDevice(device_.ordinal_));
      Note(cudaEventRecord(mark_, device_.stream_));
      Note(cudaStreamWaitEvent(stream_, mark_, 0));
    }
    void Upload(void* to, const void* from, size_t size) override {
      Transfer(to, from, size, cudaMemcpyHostToDevice);
    }
    void Download(void* to, const void* from, size_t size) override {
      Transfer(to, from, size, cudaMemcpyDeviceToHost);
    }
    OpStatus Wait() override {
      Note(cudaSetDevice(device_.ordinal_));
      const bool is_done = cudaStreamSynchronize(stream_) == cudaSuccess;
      if (!is_done) return OpStatus::kDeviceLost;
      return std::exchange(failed_, false) ? OpStatus::kDeviceError : OpStatus::kOk;
    }

   private:
    void Note(cudaError_t error) { failed_ |= error != cudaSuccess; }
    void Transfer(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
      Note(cudaSetDevice(device_.ordinal_));
      Note(cudaMemcpyAsync(to, from, size, kind, stream_));
    }

    CudaDevice& device_;
    // Handles; NOLINTNEXTLINE(misc-misplaced-const)
    const cudaStream_t stream_;
    // NOLINTNEXTLINE(misc-misplaced-const)
    const cudaEvent_t mark_;
    bool failed_ = false;
  };

  // The runtime's calls apply to the current device of the calling thread.
  void MakeCurrent() { Note(cudaSetDevice(ordinal_)); }
  void Note(cudaError_t error) { failed_ |= error != cudaSuccess; }
  // Tells the kind of a failure. After a fault of a kernel or of the hardware, all later calls of
  // the process fail as well.
  OpStatus Failure() const {
    const bool answers =
        cudaSetDevice(ordinal_) == cudaSuccess && cudaStreamSynchronize(stream_) == cudaSuccess;
    return answers ? OpStatus::kDeviceError : OpStatus::kDeviceLost;
  }
  void Transfer(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
    MakeCurrent();
    Note(cudaMemcpyAsync(to, from, size, kind, stream_));
  }

  const int ordinal_;
  // A handle; NOLINTNEXTLINE(misc-misplaced-const)
  const cudaStream_t stream_;
  cuda::CudaGraphs graphs_;
  const bool wgmma_;
  bool failed_ = false;
};

// Some environment variables turn a feature off if their value is 0, for comparisons.
// LONGSTREAM_CUDA_OVERLAP=0 makes kernels run one after the other; LONGSTREAM_CUDA_GRAPHS=0
// launches every kernel by a call of its own; LONGSTREAM_CUDA_WGMMA=0 makes prefill attention use
// mma.sync.
bool IsAllowed(const char* variable) {
  const char* setting = std::getenv(variable);
  return setting == nullptr || std::string_view(setting) != "0";
}

}  // namespace

const char* DeviceKind() { return "cuda"; }
bool DeviceRunsBesideHost() { return true; }

OpenedDevice OpenDevice(std::string_view name) {
  cuda::DeviceChoice choice = cuda::ChooseDevice(name);
  if (choice.ordinal < 0) {
    return {.device = nullptr, .why = std::move(choice.why), .unknown = choice.is_unknown};
  }
  const std::string number = "cuda:" + std::to_string(choice.ordinal);
  cudaError_t failure = cudaSetDevice(choice.ordinal);
  cudaStream_t stream = nullptr;
  if (failure == cudaSuccess) {
    failure = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  if (failure != cudaSuccess) {
    return {.device = nullptr, .why = number + ": " + cudaGetErrorString(failure)};
  }
  return {.device = std::make_unique<CudaDevice>(
              choice.ordinal, stream, choice.is_hopper && IsAllowed("LONGSTREAM_CUDA_OVERLAP"),
              IsAllowed("LONGSTREAM_CUDA_GRAPHS"),
              choice.is_hopper && IsAllowed("LONGSTREAM_CUDA_WGMMA")),
          .name = number};
}

}  // namespace longstream
