// The host as a device.
#include "kernels/core/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace longstream {
namespace {

// Every operation on the host's memory has ended when its call returns, so Wait has nothing to wait
// for.
class HostEvent final : public DeviceEvent {
 public:
  void Record() override {}
  OpStatus Wait() override { return OpStatus::kOk; }
};

class HostTransferQueue final : public TransferQueue {
 public:
  void FollowDevice() override {}
  void Upload(void* to, const void* from, size_t size) override { std::memcpy(to, from, size); }
  void Download(void* to, const void* from, size_t size) override { std::memcpy(to, from, size); }
  OpStatus Wait() override { return OpStatus::kOk; }
};

}  // namespace

void* Device::AllocateStaging(size_t size) { return std::malloc(size); }

void Device::ReleaseStaging(void* data) { std::free(data); }

// Returns an anonymous private mapping, for which the system reserves no swap.
void* HostDevice::Allocate(size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

void HostDevice::Release(void* data, size_t size) { munmap(data, size); }

// If the system has no huge pages, small pages are used. If it refuses to spread pages over the
// nodes, each page comes from the node of the thread that writes it first.
void HostDevice::PreferBandwidth(void* data, size_t size) {
  madvise(data, size, MADV_HUGEPAGE);
  Interleave(data, size, nodes_);
}

void HostDevice::Discard(void* data, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void HostDevice::Copy(void* to, const void* from, size_t size) { std::memcpy(to, from, size); }

void HostDevice::Zero(void* data, size_t size) { std::memset(data, 0, size); }

std::unique_ptr<DeviceEvent> HostDevice::MakeEvent() { return std::make_unique<HostEvent>(); }

std::unique_ptr<TransferQueue> HostDevice::MakeTransferQueue() {
  return std::make_unique<HostTransferQueue>();
}

Device& HostMemory() {
  static HostDevice device;
  return device;
}

}  // namespace longstream
