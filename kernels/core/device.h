// The memory that ops compute in, and the order of what happens there.
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

// A place in the queue of a device: a host waits for what stands before it, and not for the rest.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  virtual ~DeviceEvent() = default;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // Moves it behind all that the device has been asked for.
  virtual void Record() = 0;
  // kDeviceError or kDeviceLost where anything failed that was asked for between the Record before,
  // of whichever event, or a Synchronize, and its own. Once per Record.
  virtual OpStatus Wait() = 0;
};

// One queue of work on one device. Copies of a Device and the ops of its streams happen in the
// order of the calls; where memory is the host's, during the call.
//
// Used by one thread at a time; which thread may change between calls.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Whether the host may read and write device memory through its pointers.
  virtual bool host_memory() const = 0;
  // Bytes that Allocate could still give. UINT64_MAX: unknown.
  virtual uint64_t free_bytes() = 0;
  // Of these, bytes to leave free: what the device will take by itself, unasked, and loses to the
  // rounding of sizes.
  virtual uint64_t own_bytes() { return 0; }

  // Zeroed, aligned to 256 bytes; nullptr where there is no such memory. Waits for the queue where
  // memory is not the host's. size > 0.
  virtual void* Allocate(size_t size) = 0;
  // `size` as it was allocated. Waits for the queue likewise.
  virtual void Release(void* data, size_t size) = 0;

  // All of [data, data + size), which is not written yet, will be used in pieces of many KiB: a
  // host may give it memory in huge pages, which are there as a whole when any of it is written,
  // and from all of its nodes in turn. data at the beginning of a page.
  virtual void PreferBandwidth(void* /*data*/, size_t /*size*/) {}

  // Host memory that copies to and from the device are fastest with; nullptr where there is none.
  virtual void* AllocateStaging(size_t size);
  virtual void ReleaseStaging(void* data);

  // Host to device, device to host, device to device without overlap, and zeros. Memory of the host
  // stays as it is, and what is downloaded is of no meaning, until Synchronize or an event's Wait
  // returns.
  virtual void Upload(void* to, const void* from, size_t size) = 0;
  virtual void Download(void* to, const void* from, size_t size) = 0;
  virtual void Copy(void* to, const void* from, size_t size) = 0;
  virtual void Zero(void* data, size_t size) = 0;

  // A stream of ops on this queue, to be used by the calling thread.
  virtual Stream MakeStream(const Executor& executor, std::byte* workspace,
                            size_t workspace_bytes) = 0;

  // The device must outlive the event.
  virtual std::unique_ptr<DeviceEvent> MakeEvent() = 0;

  // Waits until all is done. kDeviceError or kDeviceLost where any of it failed that was asked for
  // since the last call, or since an event's Record.
  virtual OpStatus Synchronize() = 0;

  // Does what `work` does, which asks this device for ops alone. `key` stands for everything that
  // they are called with: a device may record the work of a key once and repeat that from then on,
  // with what memory holds at the time, in place of calling `work`. Returns what work() does, or
  // whether the repetition was begun.
  virtual OpStatus Repeat(uint64_t /*key*/, const std::function<OpStatus()>& work) {
    return work();
  }
  // Memory that recorded work refers to is no longer there.
  virtual void ForgetWork() {}

  // `warn` is told in one sentence where the device gets on with less than it should.
  using Warning = std::function<void(const std::string& sentence)>;
  void OnWarning(Warning warn) { warn_ = std::move(warn); }

 protected:
  void Warn(const std::string& sentence) const {
    if (warn_) warn_(sentence);
  }

 private:
  Warning warn_;
};

// The host's own memory, for the reference and the CPU ops. Has no state that changes, so that one
// serves all threads.
class HostDevice final : public Device {
 public:
  // What PreferBandwidth is called for is spread over these nodes.
  explicit HostDevice(std::vector<int> nodes = NodesToSpreadOver()) : nodes_(std::move(nodes)) {}

  bool host_memory() const override { return true; }
  uint64_t free_bytes() override { return UINT64_MAX; }
  // Address space now, memory page by page when it is first written: a store is therefore as large
  // as it could ever become.
  void* Allocate(size_t size) override;
  void Release(void* data, size_t size) override;
  void PreferBandwidth(void* data, size_t size) override;
  void Upload(void* to, const void* from, size_t size) override { Copy(to, from, size); }
  void Download(void* to, const void* from, size_t size) override { Copy(to, from, size); }
  void Copy(void* to, const void* from, size_t size) override;
  void Zero(void* data, size_t size) override;
  Stream MakeStream(const Executor& executor, std::byte* workspace,
                    size_t workspace_bytes) override {
    return {.executor = executor, .workspace = workspace, .workspace_bytes = workspace_bytes};
  }
  std::unique_ptr<DeviceEvent> MakeEvent() override;
  OpStatus Synchronize() override { return OpStatus::kOk; }

 private:
  const std::vector<int> nodes_;
};

// Lives as long as the program.
Device& HostMemory();

// What follows is defined once by the kernel library that a plugin is linked with.

// The kind of device that its ops compute on: "cpu" or "cuda".
const char* DeviceKind();
// Whether they do so beside the host, which goes on meanwhile.
bool DeviceRunsBesideHost();

struct OpenedDevice {
  std::unique_ptr<Device> device;  // nullptr: see below
  std::string why{};               // one sentence: what is missing, and what to do
  bool unknown = false;            // there is no such device; else it is there but cannot be used
  std::string name{};              // of `device`: "cpu", "cuda:N"
};
// A queue of its own on the device of that name: "cpu"; "cuda:N", or "cuda" for whichever of those
// that can be used has the most free memory.
OpenedDevice OpenDevice(std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_DEVICE_H_
