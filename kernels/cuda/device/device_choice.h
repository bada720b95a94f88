// Chooses the GPU for the name of a device.
#ifndef LONGSTREAM_KERNELS_CUDA_DEVICE_DEVICE_CHOICE_H_
#define LONGSTREAM_KERNELS_CUDA_DEVICE_DEVICE_CHOICE_H_

#include <string>
#include <string_view>

namespace longstream::cuda {

struct DeviceChoice {
  int ordinal = -1;        // -1: there is none; `why` and is_unknown tell more
  bool is_hopper = false;  // compute capability 9.0: supports overlap.cuh and wgmma.cuh
  std::string why{};       // one sentence: what is missing, and what to do
  // true: there is no such device; false: there is one, but it cannot be used
  bool is_unknown = false;
};

// "cuda:N" names GPU N. "cuda" names the usable GPU with the most free memory; of equal ones the
// first. A context takes some hundred MB of a GPU, so the call leaves no new context behind.
DeviceChoice ChooseDevice(std::string_view name);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_DEVICE_DEVICE_CHOICE_H_
