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

// A mark in a device's queue. The host can wait for the work before the mark alone.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  virtual ~DeviceEvent() = default;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // Puts the mark at the end of the queue.
  virtual void Record() = 0;
  // Waits for the work before the mark. kDeviceError or kDeviceLost: some of the work has failed
  // that was queued after the previous Record (of any event) or Synchronize. Call it once per
  // Record.
  virtual OpStatus Wait() = 0;
};

// One queue of work on one device. Copies and the ops of its streams happen in the order of the
// calls. If the device uses the host's memory, they happen during the call.
//
// Used by one thread at a time; the thread may change between calls.
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
  // Bytes of free_bytes() to leave free, because the device takes them for itself or loses them
  // when it rounds sizes.
  virtual uint64_t own_bytes() { return 0; }

  // Returns `size` > 0 zeroed bytes, aligned to 256 bytes; nullptr: there is not enough memory. The
  // caller releases them. Waits for the queue unless memory is the host's.
  virtual void* Allocate(size_t size) = 0;
  // Frees memory from Allocate; `size` is the size that was allocated. Waits for the queue unless
  // memory is the host's.
  virtual void Release(void* data, size_t size) = 0;

  // Announces that [data, data + size), not written yet, will be used in pieces of many KiB. A host
  // may then use huge pages, which exist as a whole once a byte is written, and spread them over
  // its memory nodes. REQUIRES: data is at the beginning of a page.
  virtual void PreferBandwidth(void* /*data*/, size_t /*size*/) {}

  // Host memory with the fastest copies to and from the device; nullptr: not enough memory.
  virtual void* AllocateStaging(size_t size);
  virtual void ReleaseStaging(void* data);

  // Copy `size` bytes host to device, device to host, device to device (without overlap); or zero
  // them. Until Synchronize or an event's Wait returns, the caller must not change host memory that
  // it uploads, nor read host memory that it downloads to.
  virtual void Upload(void* to, const void* from, size_t size) = 0;
  virtual void Download(void* to, const void* from, size_t size) = 0;
  virtual void Copy(void* to, const void* from, size_t size) = 0;
  virtual void Zero(void* data, size_t size) = 0;

  // A stream of ops on this queue for the calling thread. Borrows `workspace`.
  virtual Stream MakeStream(const Executor& executor, std::byte* workspace,
                            size_t workspace_bytes) = 0;

  // The device must outlive the event.
  virtual std::unique_ptr<DeviceEvent> MakeEvent() = 0;

  // Waits until the queue is empty. kDeviceError or kDeviceLost: work has failed that was queued
  // since the previous call or the previous Record of an event.
  virtual OpStatus Synchronize() = 0;

  // Runs `work`, which calls only ops on this device. `key` identifies all arguments of these ops.
  // The device may record the work of a key once and later repeat the recording instead of calling
  // `work`; the ops then read what memory holds at that time. Returns the status of work(), or
  // whether the repetition was started.
  virtual OpStatus Repeat(uint64_t /*key*/, const std::function<OpStatus()>& work) {
    return work();
  }
  // Drops all recordings. Call it when memory is released that recorded work uses.
  virtual void ForgetWork() {}

  // The device calls `warn` with a sentence when it works with less than it should.
  using Warning = std::function<void(const std::string& sentence)>;
  void OnWarning(Warning warn) { warn_ = std::move(warn); }

 protected:
  void Warn(const std::string& sentence) const {
    if (warn_) warn_(sentence);
  }

 private:
  Warning warn_;
};

// The host's own memory, for the reference and the CPU ops. Its state never changes, so all threads
// may share one object.
class HostDevice final : public Device {
 public:
  // PreferBandwidth spreads memory over these nodes.
  explicit HostDevice(std::vector<int> nodes = NodesToSpreadOver()) : nodes_(std::move(nodes)) {}

  bool host_memory() const override { return true; }
  uint64_t free_bytes() override { return UINT64_MAX; }
  // Takes address space; the system adds memory page by page when it is first written. So a store
  // can have its largest size from the beginning.
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

// The process's HostDevice. It lives as long as the program.
Device& HostMemory();

// Each kernel library defines the functions below; a plugin is linked with one of them.

// The kind of device that the ops compute on: "cpu" or "cuda".
const char* DeviceKind();
// Whether the ops run while the host goes on.
bool DeviceRunsBesideHost();

struct OpenedDevice {
  std::unique_ptr<Device> device;  // nullptr: it could not be opened
  std::string why{};               // then: one sentence about what is missing and what to do
  bool unknown = false;            // then: it does not exist; false: it exists but cannot be used
  std::string name{};              // the name of `device`: "cpu", "cuda:N"
};
// Opens a new queue on the device `name`: "cpu" or "cuda:N". "cuda" means, of the devices that can
// be used, the one with the most free memory.
OpenedDevice OpenDevice(std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_DEVICE_H_
