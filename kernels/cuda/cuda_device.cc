// A GPU as a device: memory, copies, a stream, events; and how one is found.
#include <cuda_runtime.h>

#include <charconv>
#include <cstdlib>
#include <utility>

#include "kernels/core/device.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_graphs.h"
#include "kernels/cuda/device_limits.h"

namespace longstream {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, cudaStream_t stream, bool overlap)
      : ordinal_(ordinal), stream_(stream), graphs_(stream, overlap) {}
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

  void* Allocate(size_t size) override {
    MakeCurrent();
    void* data = nullptr;
    if (cudaMalloc(&data, size) != cudaSuccess) {
      cudaGetLastError();  // or the next launch would report it once more
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
            .workspace = workspace,
            .workspace_bytes = workspace_bytes};
  }

  std::unique_ptr<DeviceEvent> MakeEvent() override { return std::make_unique<Event>(*this); }

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

  // What the runtime is asked for is for the device of the calling thread.
  void MakeCurrent() { Note(cudaSetDevice(ordinal_)); }
  void Note(cudaError_t error) { failed_ |= error != cudaSuccess; }
  // Of which kind a failure is. After a fault of a kernel or of the hardware every later call of
  // the process fails as well.
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
  bool failed_ = false;
};

// N of "cuda:N", 0 of "cuda", -1 of anything else.
int OrdinalOf(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (name == "cuda") return 0;
  if (!name.starts_with(kPrefix)) return -1;
  const char* const end = name.data() + name.size();
  int ordinal = -1;
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, ordinal);
  return error == std::errc() && rest == end ? ordinal : -1;
}

// "13.0" of 13000.
std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Why the runtime finds no device.
std::string WhyNone(cudaError_t error) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "the NVIDIA driver is not installed; install it, or use device cpu";
  if (error == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver serves CUDA " + VersionText(driver) + ", expected at least " +
           VersionText(CUDART_VERSION) + "; update the driver";
  }
  if (error != cudaSuccess && error != cudaErrorNoDevice) return cudaGetErrorString(error);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr
             ? "the NVIDIA driver finds none; use device cpu"
             : "CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "', which names none";
}

// Why the device cannot run what this library was compiled for; "" where it can.
std::string WhyUnsuited(int ordinal, const cudaDeviceProp& properties) {
  const std::string name = "cuda:" + std::to_string(ordinal);
  // Compiled for 80-real, which 8.x can run, and 90a-real (cmake/LongstreamCuda.cmake).
  const bool suited = properties.major == 8 || (properties.major == 9 && properties.minor == 0);
  if (!suited) {
    return name + ": " + properties.name + " has compute capability " +
           std::to_string(properties.major) + "." + std::to_string(properties.minor) +
           ", expected 8.x or 9.0; use device cpu";
  }
  if (properties.sharedMemPerBlockOptin < cuda::kMaxSharedBytes) {
    return name + ": " + properties.name + " has " +
           std::to_string(properties.sharedMemPerBlockOptin) +
           " bytes of shared memory for a block, expected at least " +
           std::to_string(cuda::kMaxSharedBytes) + "; use device cpu";
  }
  const std::string& why = cuda::LoadCublasLt();
  return why.empty() ? "" : name + ": cuBLASLt cannot be loaded: " + why;
}

// LONGSTREAM_CUDA_OVERLAP=0 has kernels take turns, to compare with.
bool OverlapIsAllowed() {
  const char* setting = std::getenv("LONGSTREAM_CUDA_OVERLAP");
  return setting == nullptr || std::string_view(setting) != "0";
}

}  // namespace

const char* DeviceKind() { return "cuda"; }
bool DeviceRunsBesideHost() { return true; }

OpenedDevice OpenDevice(std::string_view name) {
  const auto missing = [](std::string why) {
    return OpenedDevice{.device = nullptr, .why = std::move(why), .unknown = true};
  };
  const int ordinal = OrdinalOf(name);
  if (ordinal < 0) {
    return missing("there is no device '" + std::string(name) +
                   "' here, expected 'cuda' or 'cuda:N'");
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) return missing("no CUDA device: " + WhyNone(error));
  if (ordinal >= count) {
    return missing("there is no device '" + std::string(name) +
                   "' here, the last one is cuda:" + std::to_string(count - 1));
  }
  cudaDeviceProp properties;
  cudaError_t failure = cudaGetDeviceProperties(&properties, ordinal);
  if (failure == cudaSuccess) {
    std::string why = WhyUnsuited(ordinal, properties);
    if (!why.empty()) return {nullptr, std::move(why), false};
    failure = cudaSetDevice(ordinal);
  }
  cudaStream_t stream = nullptr;
  if (failure == cudaSuccess) {
    failure = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  if (failure != cudaSuccess) {
    return {nullptr, "cuda:" + std::to_string(ordinal) + ": " + cudaGetErrorString(failure), false};
  }
  return {.device = std::make_unique<CudaDevice>(ordinal, stream,
                                                 properties.major >= 9 && OverlapIsAllowed())};
}

}  // namespace longstream
