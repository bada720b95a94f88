// A device: the memory that ops compute in, and the queue that orders copies and ops.
#ifndef LONGSTREAM_KERNELS_CORE_DEVICE_H_
#define LONGSTREAM_KERNELS_CORE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/executor.h"
#include "kernels/core/memory_nodes.h"
#include "kernels/core/stream.h"

namespace longstream {

// A mark in a device's queue. The host can wait for the work before the mark without waiting for
// the work behind it.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  virtual ~DeviceEvent() = default;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // Puts the mark at the end of the queue.
  virtual void Record() = 0;
  // Waits for the work before the mark. Returns kDeviceError or kDeviceLost if a part of the work
  // has failed. This reports only work that was queued after the previous Record (of any event) or
  // Synchronize. Call Wait once for each Record.
  virtual OpStatus Wait() = 0;
};

// A second queue of a device. Its copies between host and device run beside the work in the
// device's own queue. The device must outlive it.
//
// Used by one thread at a time, which need not be the thread that uses the device. The exceptions
// are the destructor and FollowDevice, which only the device's thread may call.
class TransferQueue {
 public:
  TransferQueue() = default;
  virtual ~TransferQueue() = default;
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  // Makes later copies of this queue wait for the work that is now in the device's queue.
  virtual void FollowDevice() = 0;
  // Copy as Device::Upload and Device::Download do, until Wait returns.
  virtual void Upload(void* to, const void* from, size_t size) = 0;
  virtual void Download(void* to, const void* from, size_t size) = 0;
  // Waits for the copies. Returns kDeviceError or kDeviceLost if one of them has failed.
  virtual OpStatus Wait() = 0;
};

// One queue of work on one device. Copies and ops happen in the order in which they are called. If
// the device uses the host's memory, each happens during its call.
//
// A device is used by one thread at a time; the thread may change between calls.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Whether the host may read and write the device's memory through pointers to it.
  virtual bool host_memory() const = 0;
  // Bytes that Allocate can still give. UINT64_MAX: unknown.
  virtual uint64_t free_bytes() = 0;
  // How many of the free_bytes() the caller must leave free. The device takes them for itself, or
  // loses them when it rounds the sizes of allocations.
  virtual uint64_t own_bytes() { return 0; }

  // Allocates `size` bytes, zeroed and aligned to 256 bytes. Returns nullptr if there is not enough
  // memory. The caller releases the memory. Waits for the queue unless the memory is the host's.
  // REQUIRES: size > 0.
  virtual void* Allocate(size_t size) = 0;
  // Frees memory from Allocate; `size` is the size that was allocated. Waits for the queue unless
  // the memory is the host's.
  virtual void Release(void* data, size_t size) = 0;

  // Announces that [data, data + size), which nobody has written yet, will be used in pieces of
  // many KiB. A host may then spread it over its memory nodes and use huge pages. (A huge page
  // takes all of its memory as soon as one of its bytes is written.) REQUIRES: data is at the
  // beginning of a page.
  virtual void PreferBandwidth(void* /*data*/, size_t /*size*/) {}

  // Announces that the contents of [data, data + size) are not needed any more. The host gives the
  // pages of the system that lie inside back to it; they are zero when they are next used. Other
  // devices keep their memory.
  virtual void Discard(void* /*data*/, size_t /*size*/) {}

  // Allocates host memory that is copied fastest to and from the device. Returns nullptr if there
  // is not enough memory.
  virtual void* AllocateStaging(size_t size);
  virtual void ReleaseStaging(void* data);

  // Upload copies `size` bytes from the host to the device, Download from the device to the host.
  // Copy copies them within the device; the two ranges must not overlap. Zero writes zeros. Until
  // Synchronize or an event's Wait returns, the caller must not change host memory that it uploads,
  // nor read host memory that it downloads to.
  virtual void Upload(void* to, const void* from, size_t size) = 0;
  virtual void Download(void* to, const void* from, size_t size) = 0;
  virtual void Copy(void* to, const void* from, size_t size) = 0;
  virtual void Zero(void* data, size_t size) = 0;

  // Returns a stream of ops on this queue, for the calling thread. The stream borrows `workspace`.
  virtual Stream MakeStream(const Executor& executor, std::byte* workspace,
                            size_t workspace_bytes) = 0;

  // Returns a new event. The device must outlive it.
  virtual std::unique_ptr<DeviceEvent> MakeEvent() = 0;

  // Returns a second queue, or nullptr if the device cannot make one.
  virtual std::unique_ptr<TransferQueue> MakeTransferQueue() = 0;

  // Waits until the queue is empty. Returns kDeviceError or kDeviceLost if a part of the work has
  // failed. This reports only work that was queued after the previous Synchronize or Record of an
  // event.
  virtual OpStatus Synchronize() = 0;

  // Runs `work`, which calls only ops on this device. `key` identifies all arguments of these ops.
  // The device may record the work of a key once. Later it may repeat the recording instead of
  // calling `work`; the ops then read what memory holds at that time. Returns the status of work()
  // or, for a repetition, whether it was started.
  virtual OpStatus Repeat(uint64_t /*key*/, const std::function<OpStatus()>& work) {
    return work();
  }
  // Drops all recordings. Call it when memory that recorded work uses is released.
  virtual void ForgetWork() {}

  // The device calls `warn` with a sentence when it must work more slowly than it should.
  using Warning = std::function<void(const std::string& sentence)>;
  void OnWarning(Warning warn) { warn_ = std::move(warn); }

 protected:
  void Warn(const std::string& sentence) const {
    if (warn_) warn_(sentence);
  }

 private:
  Warning warn_;
};

// The host's own memory, for the reference and the CPU ops. A HostDevice never changes, so all
// threads may share one.
class HostDevice : public Device {
 public:
  // PreferBandwidth spreads memory over these nodes.
  explicit HostDevice(std::vector<int> nodes = NodesToSpreadOver()) : nodes_(std::move(nodes)) {}

  bool host_memory() const override { return true; }
  uint64_t free_bytes() override { return UINT64_MAX; }
  // Takes address space only. The system adds memory page by page, when a page is first written. So
  // a store of caches can have its largest size from the beginning.
  void* Allocate(size_t size) override;
  void Release(void* data, size_t size) override;
  void PreferBandwidth(void* data, size_t size) override;
  void Discard(void* data, size_t size) override;
  void Upload(void* to, const void* from, size_t size) override { Copy(to, from, size); }
  void Download(void* to, const void* from, size_t size) override { Copy(to, from, size); }
  void Copy(void* to, const void* from, size_t size) override;
  void Zero(void* data, size_t size) override;
  Stream MakeStream(const Executor& executor, std::byte* workspace,
                    size_t workspace_bytes) override {
    return {.executor = executor, .workspace = workspace, .workspace_bytes = workspace_bytes};
  }
  std::unique_ptr<DeviceEvent> MakeEvent() override;
  std::unique_ptr<TransferQueue> MakeTransferQueue() override;
  OpStatus Synchronize() override { return OpStatus::kOk; }

 private:
  const std::vector<int> nodes_;
};

// The process's HostDevice. It lives as long as the program.
Device& HostMemory();

// Each kernel library defines the functions below; a plugin is linked with one library.

// The kind of device that the ops compute on: "cpu" or "cuda".
const char* DeviceKind();
// Whether the ops run on their device while the host continues.
bool DeviceRunsBesideHost();

struct OpenedDevice {
  std::unique_ptr<Device> device;  // nullptr: the device could not be opened
  std::string why{};               // if not opened: what is missing and what to do, in a sentence
  bool unknown = false;            // if not opened: whether no such device exists
  std::string name{};              // the name of `device`: "cpu", "cuda:N"
};
// Opens a new queue on the device `name`: "cpu" or "cuda:N". The name "cuda" means: of the devices
// that can be used, the one with the most free memory.
OpenedDevice OpenDevice(std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_DEVICE_H_
