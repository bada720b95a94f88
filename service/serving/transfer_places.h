// Limits how many exports and imports run at once.
#ifndef LONGSTREAM_SERVICE_SERVING_TRANSFER_PLACES_H_
#define LONGSTREAM_SERVICE_SERVING_TRANSFER_PLACES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/errors/retry_after.h"
#include "service/security/tenants/tenant.h"

namespace longstream {

// The counts and caches that an export or an import holds while it runs. Used by one thread at a
// time.
class TransferPlace {
 public:
  // `running`: the number of all that run; this one is counted in it, and in the tenant's quota.
  TransferPlace(std::shared_ptr<std::atomic<uint64_t>> running, std::shared_ptr<Tenant> tenant)
      : running_(std::move(running)), tenant_(std::move(tenant)), caches_(tenant_) {}
  ~TransferPlace() { Return(); }
  TransferPlace(const TransferPlace&) = delete;
  TransferPlace& operator=(const TransferPlace&) = delete;

  // The caches that it holds, in the quota of its tenant.
  CacheCharge& caches() { return caches_; }

  // Gives everything back. The transfer may exist for a moment longer.
  void Return() {
    if (running_ == nullptr) return;
    caches_.Set(0);
    tenant_->ReturnTransfer();
    running_->fetch_sub(1);
    running_.reset();
  }

 private:
  std::shared_ptr<std::atomic<uint64_t>> running_;  // nullptr: given back
  const std::shared_ptr<Tenant> tenant_;
  CacheCharge caches_;
};

// Thread-safe.
class TransferPlaces {
 public:
  // `limit`: sessions.max_transfers.
  explicit TransferPlaces(uint64_t limit) : limit_(limit) {}

  // RESOURCE_EXHAUSTED: as many run as the server allows, or the quota of the tenant. The error has
  // the time after which the call may succeed (RetryAfterOf).
  absl::StatusOr<std::shared_ptr<TransferPlace>> Take(std::shared_ptr<Tenant> tenant) {
    uint64_t running = running_->load();
    do {
      if (running >= limit_) {
        return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                  "sessions.max_transfers: ", running,
                                  " exports and imports run, and the limit is ", limit_)),
                              absl::Seconds(1));
      }
    } while (!running_->compare_exchange_weak(running, running + 1));
    absl::Status taken = tenant->TakeTransfer();
    if (taken.ok()) return std::make_shared<TransferPlace>(running_, std::move(tenant));
    running_->fetch_sub(1);
    return taken;
  }

 private:
  const uint64_t limit_;
  // Shared with the places, which may exist for a moment longer than the server.
  const std::shared_ptr<std::atomic<uint64_t>> running_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TRANSFER_PLACES_H_
