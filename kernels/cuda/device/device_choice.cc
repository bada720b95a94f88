// Finds the GPUs of the machine, which of them the kernels can use, and their free memory.
#include "kernels/cuda/device/device_choice.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/cuda/cublaslt/cublaslt_library.h"
#include "kernels/cuda/primitives/device_limits.h"

namespace longstream::cuda {
namespace {

constexpr int kAny = -1;
constexpr int kNone = -2;

// N for "cuda:N", kAny for "cuda", kNone for any other name.
int OrdinalOf(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (name == "cuda") return kAny;
  if (!name.starts_with(kPrefix)) return kNone;
  const char* const end = name.data() + name.size();
  int ordinal = kNone;
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, ordinal);
  return error == std::errc() && rest == end && ordinal >= 0 ? ordinal : kNone;
}

std::string NameOf(int ordinal) { return "cuda:" + std::to_string(ordinal); }

// The text "13.0" for 13000.
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

// Why a device cannot run the code of this library; "" if it can.
std::string WhyUnsuited(const cudaDeviceProp& properties) {
  // The code is compiled for 80-real, which 8.x can run, and 90a-real (cmake/LongstreamCuda.cmake).
  const bool suited = properties.major == 8 || (properties.major == 9 && properties.minor == 0);
  if (!suited) {
    return std::string(properties.name) + " has compute capability " +
           std::to_string(properties.major) + "." + std::to_string(properties.minor) +
           ", expected 8.x or 9.0";
  }
  if (properties.sharedMemPerBlockOptin < kMaxSharedBytes) {
    return std::string(properties.name) + " has " +
           std::to_string(properties.sharedMemPerBlockOptin) +
           " bytes of shared memory for a block, expected at least " +
           std::to_string(kMaxSharedBytes);
  }
  return "";
}

// Finds a function of the driver. Plugins are not linked with the driver.
template <typename Function>
bool FindInDriver(const char* name, Function** function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion(name, &address, CUDART_VERSION, cudaEnableDefault, &found) !=
          cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return false;
  }
  *function = reinterpret_cast<Function*>(address);
  return true;
}

// Reads the free memory of a device. It asks the driver, because the runtime would keep a context
// on every device that it is asked about. The driver gives up a context that nobody else holds.
class MemoryQuery {
 public:
  MemoryQuery()
      : ok_(FindInDriver("cuGetErrorString", &error_string_) &&
            FindInDriver("cuDeviceGet", &device_) &&
            FindInDriver("cuDevicePrimaryCtxRetain", &retain_) &&
            FindInDriver("cuDevicePrimaryCtxRelease", &release_) &&
            FindInDriver("cuCtxPushCurrent", &push_) && FindInDriver("cuCtxPopCurrent", &pop_) &&
            FindInDriver("cuMemGetInfo", &memory_)) {}

  // Returns "", or why the free memory is unknown.
  std::string FreeBytes(int ordinal, size_t* free) const {
    if (!ok_) return "the NVIDIA driver does not tell what memory is free";
    CUdevice device{};
    CUcontext context = nullptr;
    CUresult result = device_(&device, ordinal);
    if (result == CUDA_SUCCESS) result = retain_(&context, device);
    if (result != CUDA_SUCCESS) return Text(result);
    size_t total = 0;
    result = push_(context);
    if (result == CUDA_SUCCESS) {
      result = memory_(free, &total);
      pop_(&context);
    }
    release_(device);
    return result == CUDA_SUCCESS ? "" : Text(result);
  }

 private:
  std::string Text(CUresult result) const {
    const char* text = nullptr;
    error_string_(result, &text);
    return text == nullptr ? "error " + std::to_string(static_cast<int>(result)) : text;
  }

  decltype(cuGetErrorString)* error_string_ = nullptr;
  decltype(cuDeviceGet)* device_ = nullptr;
  decltype(cuDevicePrimaryCtxRetain)* retain_ = nullptr;
  decltype(cuDevicePrimaryCtxRelease)* release_ = nullptr;
  decltype(cuCtxPushCurrent)* push_ = nullptr;
  decltype(cuCtxPopCurrent)* pop_ = nullptr;
  decltype(cuMemGetInfo)* memory_ = nullptr;
  bool ok_;
};

// The devices that cannot be used. Devices with the same reason are listed together.
class Refusals {
 public:
  void Add(int ordinal, const std::string& why) {
    for (auto& [names, other] : list_) {
      if (other != why) continue;
      names += ", " + NameOf(ordinal);
      return;
    }
    list_.emplace_back(NameOf(ordinal), why);
  }
  std::string Sentence() const {
    std::string sentence;
    for (const auto& [names, why] : list_) sentence.append(names).append(": ").append(why) += "; ";
    return sentence + "use device cpu";
  }

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

// The device with the most free memory, or kNone if no device reports it.
int WithMostFreeMemory(const std::vector<int>& ordinals, Refusals* refusals) {
  const MemoryQuery query;
  int best = kNone;
  size_t most = 0;
  for (const int ordinal : ordinals) {
    size_t free = 0;
    const std::string why = query.FreeBytes(ordinal, &free);
    if (!why.empty()) {
      refusals->Add(ordinal, why);
    } else if (best == kNone || free > most) {
      best = ordinal;
      most = free;
    }
  }
  return best;
}

}  // namespace

DeviceChoice ChooseDevice(std::string_view name) {
  const auto unknown = [](std::string why) {
    return DeviceChoice{.why = std::move(why), .is_unknown = true};
  };
  const int asked = OrdinalOf(name);
  if (asked == kNone) {
    return unknown("there is no device '" + std::string(name) +
                   "' here, expected 'cuda' or 'cuda:N'");
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) return unknown("no CUDA device: " + WhyNone(error));
  if (asked >= count) {
    return unknown("there is no device '" + std::string(name) + "' here, the last one is " +
                   NameOf(count - 1));
  }

  Refusals refusals;
  std::vector<int> suited;
  std::vector<cudaDeviceProp> properties(static_cast<size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (asked != kAny && asked != ordinal) continue;
    cudaDeviceProp& device = properties[static_cast<size_t>(ordinal)];
    const cudaError_t failure = cudaGetDeviceProperties(&device, ordinal);
    const std::string why =
        failure == cudaSuccess ? WhyUnsuited(device) : cudaGetErrorString(failure);
    if (why.empty()) {
      suited.push_back(ordinal);
    } else {
      refusals.Add(ordinal, why);
    }
  }
  int chosen = suited.empty() ? kNone : suited[0];
  if (suited.size() > 1) chosen = WithMostFreeMemory(suited, &refusals);
  if (chosen == kNone) return {.why = refusals.Sentence()};
  const std::string& why = LoadCublasLt();
  if (!why.empty()) return {.why = NameOf(chosen) + ": cuBLASLt cannot be loaded: " + why};
  return {.ordinal = chosen, .is_hopper = properties[static_cast<size_t>(chosen)].major == 9};
}

}  // namespace longstream::cuda
