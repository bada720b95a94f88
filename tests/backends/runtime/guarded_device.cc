// Memory protection around copies and ops.
#include "tests/backends/runtime/guarded_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/kernels/wrapped_ops.h"

namespace longstream {
namespace {

constexpr size_t kPage = 4096;

size_t WholePages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

}  // namespace

GuardedDevice::GuardedDevice(uint64_t memory_bytes)
    : free_bytes_(memory_bytes),
      arena_size_(2 * WholePages(memory_bytes)),
      arena_(static_cast<std::byte*>(mmap(nullptr, arena_size_, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

GuardedDevice::~GuardedDevice() {
  EXPECT_TRUE(allocations_.empty());
  munmap(arena_, arena_size_);
}

void* GuardedDevice::Allocate(size_t size) {
  EXPECT_GT(size, 0u);
  const size_t pages = WholePages(size);
  if (pages > free_bytes_ || used_ + pages > arena_size_) return nullptr;
  std::byte* data = arena_ + used_;
  used_ += pages;
  free_bytes_ -= pages;
  allocations_[data] = pages;
  return data;
}

void GuardedDevice::Release(void* data, size_t size) {
  const auto found = allocations_.find(static_cast<std::byte*>(data));
  ASSERT_NE(found, allocations_.end());
  EXPECT_EQ(found->second, WholePages(size));
  Complete(num_transfers_);
  free_bytes_ += found->second;
  allocations_.erase(found);
}

void GuardedDevice::Protect(bool accessible) {
  ASSERT_EQ(mprotect(arena_, arena_size_, accessible ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
}

bool GuardedDevice::Owns(const void* data, size_t size) const {
  const auto* begin = static_cast<const std::byte*>(data);
  for (const auto& [allocation, length] : allocations_) {
    if (begin >= allocation && begin + size <= allocation + length) return true;
  }
  return false;
}

void GuardedDevice::Upload(void* to, const void* from, size_t size) {
  ASSERT_TRUE(Owns(to, size));
  ASSERT_FALSE(Owns(from, size));
  ++num_uploads_;
  num_uploaded_bytes_ += size;
  auto* host = static_cast<std::byte*>(const_cast<void*>(from));
  transfers_.push_back({host, {host, host + size}, true});
  ++num_transfers_;
  Protect(true);
  std::memcpy(to, from, size);
  Protect(false);
}

void GuardedDevice::Download(void* to, const void* from, size_t size) {
  ASSERT_TRUE(Owns(from, size));
  ASSERT_FALSE(Owns(to, size));
  const auto* data = static_cast<const std::byte*>(from);
  Protect(true);
  transfers_.push_back({static_cast<std::byte*>(to), {data, data + size}, false});
  ++num_transfers_;
  num_downloaded_bytes_ += size;
  Protect(false);
}

void GuardedDevice::Copy(void* to, const void* from, size_t size) {
  ASSERT_TRUE(Owns(to, size) && Owns(from, size));
  Protect(true);
  std::memcpy(to, from, size);
  Protect(false);
}

void GuardedDevice::Zero(void* data, size_t size) {
  ASSERT_TRUE(Owns(data, size));
  Protect(true);
  std::memset(data, 0, size);
  Protect(false);
}

Stream GuardedDevice::MakeStream(const Executor& executor, std::byte* workspace,
                                 size_t workspace_bytes) {
  return {.executor = executor,
          .native = this,
          .workspace = workspace,
          .workspace_bytes = workspace_bytes};
}

void GuardedDevice::Complete(uint64_t count) {
  while (num_transfers_ - transfers_.size() < count) {
    const Transfer& next = transfers_.front();
    if (next.is_upload) {
      EXPECT_EQ(std::memcmp(next.host, next.bytes.data(), next.bytes.size()), 0)
          << "the source of an upload has changed before it was waited for";
    } else {
      std::memcpy(next.host, next.bytes.data(), next.bytes.size());
    }
    transfers_.pop_front();
  }
}

OpStatus GuardedDevice::Synchronize() {
  Complete(num_transfers_);
  return std::exchange(fails_, false) ? OpStatus::kDeviceError : OpStatus::kOk;
}

class GuardedDevice::Event final : public DeviceEvent {
 public:
  explicit Event(GuardedDevice& device) : device_(device) {}
  void Record() override {
    place_ = device_.num_transfers_;
    failed_ = std::exchange(device_.fails_, false);
  }
  OpStatus Wait() override {
    device_.Complete(place_);
    return failed_ ? OpStatus::kDeviceError : OpStatus::kOk;
  }

 private:
  GuardedDevice& device_;
  uint64_t place_ = 0;
  bool failed_ = false;
};

class GuardedDevice::Transfers final : public TransferQueue {
 public:
  explicit Transfers(GuardedDevice& device) : device_(device) {}
  void FollowDevice() override {}
  void Upload(void* to, const void* from, size_t size) override { device_.Upload(to, from, size); }
  void Download(void* to, const void* from, size_t size) override {
    device_.Download(to, from, size);
  }
  OpStatus Wait() override { return device_.Synchronize(); }

 private:
  GuardedDevice& device_;
};

std::unique_ptr<TransferQueue> GuardedDevice::MakeTransferQueue() {
  return std::make_unique<Transfers>(*this);
}

std::unique_ptr<DeviceEvent> GuardedDevice::MakeEvent() { return std::make_unique<Event>(*this); }

// Lets an op access the device's memory while it runs.
template <typename Args, OpMember<Args> kOp>
struct GuardedOp {
  static void Run(Stream& stream, const Args& args) {
    auto* device = static_cast<GuardedDevice*>(stream.native);
    device->Protect(true);
    (DeviceOps().*kOp)(stream, args);
    device->Protect(false);
  }
};

const OpTable& GuardedOps() {
  static const OpTable guarded = Wrapped<GuardedOp>(DeviceOps());
  return guarded;
}

}  // namespace longstream
