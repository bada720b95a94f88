// Memory for all the weights of a model, in one piece.
#include "backends/packing/weight_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "backends/errors/error.h"
#include "kernels/core/physical_memory.h"

namespace longstream {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;  // x86-64
constexpr size_t kLeastForBandwidth = 4 * kHugePage;

}  // namespace

OwnedMemory AllocateHostWeights(size_t bytes, Device& host) {
  // One huge page more is mapped, so that the weights can begin at a huge page; untouched memory
  // costs nothing. HostDevice::Allocate is not used, because it accepts more bytes than the host
  // has. Here that must be refused, because all of the memory will be written.
  const uint64_t left = AvailableMemory();
  const size_t mapped = bytes + kHugePage;
  void* map = MAP_FAILED;
  if (bytes <= left) {
    map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  }
  if (map == MAP_FAILED) {
    throw BackendError(LS_RESOURCE_EXHAUSTED, "weights: need " + std::to_string(bytes) +
                                                  " bytes of memory, " + std::to_string(left) +
                                                  " of " + std::to_string(PhysicalMemory()) +
                                                  " are left");
  }
  const auto begin = (reinterpret_cast<uintptr_t>(map) + kHugePage - 1) / kHugePage * kHugePage;
  OwnedMemory memory(reinterpret_cast<void*>(begin), [map, mapped](void*) { munmap(map, mapped); });
  // Projections read all their weights for each token, so huge pages save many page-table walks.
  if (bytes >= kLeastForBandwidth) host.PreferBandwidth(memory.get(), bytes);
  return memory;
}

OwnedMemory AllocateWeights(Device& device, size_t bytes) {
  if (device.host_memory()) return AllocateHostWeights(bytes, device);
  void* data = device.Allocate(bytes);
  if (data == nullptr) {
    throw BackendError(LS_RESOURCE_EXHAUSTED,
                       "weights: the device has no " + std::to_string(bytes) + " bytes, " +
                           std::to_string(device.free_bytes()) + " are free");
  }
  return {data, [&device, bytes](void* memory) { device.Release(memory, bytes); }};
}

}  // namespace longstream
