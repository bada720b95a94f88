// Which GPU the name of a device stands for.
#ifndef LONGSTREAM_KERNELS_CUDA_DEVICE_DEVICE_CHOICE_H_
#define LONGSTREAM_KERNELS_CUDA_DEVICE_DEVICE_CHOICE_H_

#include <string>
#include <string_view>

namespace longstream::cuda {

struct DeviceChoice {
  int ordinal = -1;         // -1: there is none, see below
  bool is_hopper = false;   // compute capability 9.0: has what overlap.cuh and wgmma.cuh use
  std::string why{};        // one sentence: what is missing, and what to do
  bool is_unknown = false;  // there is no such device; else it is there but cannot be used
};

// "cuda:N" is that one. "cuda" is, of those that can be used, the one with the most free memory, of
// equals the first. The process has a context, some hundred MB of a GPU, on none that it had none
// on before.
DeviceChoice ChooseDevice(std::string_view name);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_DEVICE_DEVICE_CHOICE_H_
