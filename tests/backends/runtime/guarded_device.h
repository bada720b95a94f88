// A device as strict as a GPU, on the host: its memory may be touched by copies and ops alone.
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

// Its pages are inaccessible but during a copy, or an op of GuardedOps: what a host reads or writes
// there directly is a segmentation fault. An upload whose source changes before it is waited for,
// by Synchronize or an event, fails the test, and what is downloaded arrives no sooner.
class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(uint64_t memory_bytes);
  // Fails the test where memory has not been given back.
  ~GuardedDevice() override;

  bool host_memory() const override { return false; }
  uint64_t free_bytes() override { return free_bytes_; }
  uint64_t own_bytes() override { return arena_size_ / 16; }  // sizes become whole pages
  void* Allocate(size_t size) override;
  void Release(void* data, size_t size) override;
  void Upload(void* to, const void* from, size_t size) override;
  void Download(void* to, const void* from, size_t size) override;
  void Copy(void* to, const void* from, size_t size) override;
  void Zero(void* data, size_t size) override;
  Stream MakeStream(const Executor& executor, std::byte* workspace,
                    size_t workspace_bytes) override;
  std::unique_ptr<DeviceEvent> MakeEvent() override;
  OpStatus Synchronize() override;

  // What waits for the work that is asked for next reports a failure.
  void FailOnce() { fails_ = true; }
  uint64_t uploads() const { return num_uploads_; }
  uint64_t downloaded_bytes() const { return num_downloaded_bytes_; }

 private:
  friend const OpTable& GuardedOps();

  class Event;
  struct Transfer {
    std::byte* host;
    std::vector<std::byte> bytes;
    bool is_upload;
  };

  void Protect(bool accessible);
  // Completes transfers until `count` have been since the beginning.
  void Complete(uint64_t count);
  // Whether [data, data + size) lies in one allocation.
  bool Owns(const void* data, size_t size) const;

  uint64_t free_bytes_;
  // One piece, so that a single call protects it; what is released is not used again.
  const size_t arena_size_;
  std::byte* const arena_;
  size_t used_ = 0;
  std::map<std::byte*, size_t> allocations_;  // sizes in whole pages
  std::deque<Transfer> transfers_;            // not yet waited for
  uint64_t num_transfers_ = 0;                // since the beginning
  uint64_t num_uploads_ = 0;
  uint64_t num_downloaded_bytes_ = 0;
  bool fails_ = false;
};

// The ops of the host, with access to the memory of the GuardedDevice whose stream they are called
// with.
const OpTable& GuardedOps();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_RUNTIME_GUARDED_DEVICE_H_
