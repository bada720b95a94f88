// A device in host memory that is as strict as a GPU: only copies and ops may touch its memory.
#ifndef LONGSTREAM_TESTS_BACKENDS_RUNTIME_GUARDED_DEVICE_H_
#define LONGSTREAM_TESTS_BACKENDS_RUNTIME_GUARDED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// The device's pages are inaccessible except during a copy or an op of GuardedOps, so a direct
// access by the host is a segmentation fault. An upload fails the test if its source changes before
// a wait (by Synchronize or an event). A download arrives only at a wait.
class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(uint64_t memory_bytes);
  // Fails the test if memory has not been released.
  ~GuardedDevice() override;

  bool host_memory() const override { return false; }
  uint64_t free_bytes() override { return free_bytes_; }
  uint64_t own_bytes() override { return arena_size_ / 16; }  // sizes are rounded up to whole pages
  void* Allocate(size_t size) override;
  void Release(void* data, size_t size) override;
  void Upload(void* to, const void* from, size_t size) override;
  void Download(void* to, const void* from, size_t size) override;
  void Copy(void* to, const void* from, size_t size) override;
  void Zero(void* data, size_t size) override;
  Stream MakeStream(const Executor& executor, std::byte* workspace,
                    size_t workspace_bytes) override;
  std::unique_ptr<DeviceEvent> MakeEvent() override;
  // Only for the device's own thread.
  std::unique_ptr<TransferQueue> MakeTransferQueue() override;
  OpStatus Synchronize() override;

  // The next wait for work that is submitted after this call reports a failure.
  void FailOnce() { fails_ = true; }
  uint64_t uploads() const { return num_uploads_; }
  uint64_t uploaded_bytes() const { return num_uploaded_bytes_; }
  uint64_t downloaded_bytes() const { return num_downloaded_bytes_; }

  // Makes all memory of the device accessible or not.
  void Protect(bool accessible);

 private:
  class Event;
  class Transfers;
  struct Transfer {
    std::byte* host;
    std::vector<std::byte> bytes;
    bool is_upload;
  };

  // Completes transfers until `count` transfers since the start are complete.
  void Complete(uint64_t count);
  // Whether [data, data + size) lies in one allocation.
  bool Owns(const void* data, size_t size) const;

  uint64_t free_bytes_;
  // One piece of memory, so that one call protects it. Released memory is not used again.
  const size_t arena_size_;
  std::byte* const arena_;
  size_t used_ = 0;
  std::map<std::byte*, size_t> allocations_;  // sizes in whole pages
  std::deque<Transfer> transfers_;            // not yet waited for
  uint64_t num_transfers_ = 0;                // since the start
  uint64_t num_uploads_ = 0;
  uint64_t num_uploaded_bytes_ = 0;
  uint64_t num_downloaded_bytes_ = 0;
  bool fails_ = false;
};

// The host's ops. They may access the memory of the GuardedDevice on whose stream they are called.
const OpTable& GuardedOps();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_RUNTIME_GUARDED_DEVICE_H_
