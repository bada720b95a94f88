// A tenant: what it may use, and what it uses.
#ifndef LONGSTREAM_SERVICE_SECURITY_TENANTS_TENANT_H_
#define LONGSTREAM_SERVICE_SECURITY_TENANTS_TENANT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"
#include "service/config/tenant_config.h"
#include "service/host_memory/host_memory.h"
#include "service/security/tenants/token_bucket.h"

namespace longstream {

enum class Quota { kSessions, kSessionBytes, kTokensPerMinute, kTurns, kTransfers };
inline constexpr size_t kNumQuotas = 5;
// Its key in the configuration.
const char* NameOf(Quota quota);

// The use of a tenant's quotas at one moment.
struct TenantUse {
  uint64_t sessions = 0;
  uint64_t host_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t turns = 0;
  uint64_t transfers = 0;
  uint64_t tokens = 0;                             // since the start
  std::array<uint64_t, kNumQuotas> refusals = {};  // since the start, by Quota
};

class Tenant;

// The part of the quotas of its tenant that a turn has taken. The destructor gives it back. Used by
// one thread at a time, but for Take.
class TurnAllowance {
 public:
  TurnAllowance() = default;  // of nobody; counts nothing
  ~TurnAllowance() { GiveBack(); }
  TurnAllowance(TurnAllowance&& other) noexcept;
  TurnAllowance& operator=(TurnAllowance&& other) noexcept;

  // Takes tokens of input that has arrived after the turn began, before they are computed. Refused
  // as Tenant::BeginTurn, with the time after which a turn with all its tokens may begin. After
  // GiveBack it takes nothing. Any thread may call it, beside Count and GiveBack.
  absl::Status Take(uint64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn has added this many tokens to its session.
  void Count(uint64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn has ended. Tokens that it has not used are in the quota again.
  void GiveBack() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class Tenant;
  TurnAllowance(std::shared_ptr<Tenant> tenant, uint64_t tokens)
      : tenant_(std::move(tenant)), left_(tokens), taken_(tokens) {}

  absl::Mutex mutex_;
  std::shared_ptr<Tenant> tenant_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_ ABSL_GUARDED_BY(mutex_) = 0;   // tokens that were taken and not used yet
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // by the turn so far
};

// Refusals are RESOURCE_EXHAUSTED; the message names the quota, its limit and the use, and has the
// time after which the call may succeed (RetryAfterOf). Shared by the sessions and the turns of the
// tenant, which may exist for a moment longer than the server that made it. Thread-safe.
class Tenant : public std::enable_shared_from_this<Tenant> {
 public:
  // `index`: the tenant's place among all. `all`: counts the host's memory of all tenants.
  // `is_configured`: false for the tenant of a server without tenants, which counts nothing.
  // `clock`: measures the minutes of tokens_per_minute. Thread-safe.
  Tenant(const TenantConfig& config, size_t index, std::shared_ptr<HostMemory> all,
         bool is_configured, MonotonicClock clock);
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  const std::string& name() const { return config_.name; }
  uint32_t weight() const { return config_.weight; }
  size_t index() const { return index_; }
  bool is_configured() const { return is_configured_; }
  const TenantQuotas& quotas() const { return config_.quotas; }

  // Counts another open session, unless the quota is used up.
  absl::Status TakeSession() ABSL_LOCKS_EXCLUDED(mutex_);
  // A session that was counted, and is not in the store, is closed.
  void ReturnSession() ABSL_LOCKS_EXCLUDED(mutex_);
  // A session that was counted is in the store from now on.
  void MoveSessionToStore() ABSL_LOCKS_EXCLUDED(mutex_);
  // A session in the store is closed. It may be one that another server has made.
  void ReturnStored() ABSL_LOCKS_EXCLUDED(mutex_);
  // So many sessions are in the store, whatever was counted before.
  void CountStored(uint64_t sessions) ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts the host's memory of the tenant's sessions and turns, within the quota of bytes and
  // within the limit of all tenants. The second function is for charges that may outlive the
  // server.
  HostMemory* host_memory() { return is_configured_ ? &host_memory_ : all_.get(); }
  std::shared_ptr<HostMemory> shared_host_memory() { return {shared_from_this(), host_memory()}; }

  // The bytes of caches that the quota allows now, beside those that are counted. The host's part
  // of the quota is not refused because of caches: idle caches make room for it.
  bool TryTakeCaches(uint64_t bytes);
  void TakeCaches(uint64_t bytes) { cache_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void ReturnCaches(uint64_t bytes) { cache_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Whether caches have to go because the host's part of the quota has grown.
  bool OverBytes() const;
  // Whether `bytes` of caches fit when `freed` bytes of other caches have gone.
  bool WouldFit(uint64_t bytes, uint64_t freed) const;
  // The refusal for caches of `bytes` more. Counts it.
  absl::Status RefuseCaches(uint64_t bytes);

  // Counts a turn that is about to begin, and takes its tokens: those of its prompt, and the most
  // that it may generate, if its request says so. Tokens beyond these are taken when they are
  // there. A turn that has begun is never cut.
  absl::StatusOr<TurnAllowance> BeginTurn(uint64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts another export or import that runs, unless the quota is used up.
  absl::Status TakeTransfer() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnTransfer() ABSL_LOCKS_EXCLUDED(mutex_);

  TenantUse use() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class TurnAllowance;

  // Takes `tokens` for a turn that has taken `before` already. *taken: how many it took.
  absl::Status TakeMore(uint64_t tokens, uint64_t before, uint64_t* taken)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The refusal of a turn that may take `tokens`, of which the bucket has `level`.
  absl::Status RefuseTokens(uint64_t tokens, double level, absl::Duration wait);
  void EndTurn(uint64_t unused_tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeUsedTokens(uint64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Refuse(Quota quota, const std::string& why, absl::Duration retry_after);
  uint64_t held_bytes() const {
    return host_memory_.held_bytes() + cache_bytes_.load(std::memory_order_relaxed);
  }

  const TenantConfig config_;
  const size_t index_;
  const bool is_configured_;
  const MonotonicClock clock_;
  const std::shared_ptr<HostMemory> all_;
  HostMemory host_memory_;
  std::atomic<uint64_t> cache_bytes_{0};
  std::atomic<uint64_t> tokens_{0};
  std::array<std::atomic<uint64_t>, kNumQuotas> refusals_{};
  mutable absl::Mutex mutex_;
  uint64_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;  // that are not in the store
  uint64_t stored_ ABSL_GUARDED_BY(mutex_) = 0;    // sessions in the store
  uint64_t turns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t transfers_ ABSL_GUARDED_BY(mutex_) = 0;
  TokenBucket bucket_ ABSL_GUARDED_BY(mutex_);
};

// The bytes of caches that one session, turn or transfer has in the quota of its tenant. The
// destructor gives them back. Used by one thread at a time.
class CacheCharge {
 public:
  // `tenant`: nullptr: counts nowhere.
  explicit CacheCharge(std::shared_ptr<Tenant> tenant = nullptr)
      : tenant_(tenant != nullptr && tenant->is_configured() ? std::move(tenant) : nullptr) {}
  ~CacheCharge() { Set(0); }
  CacheCharge(const CacheCharge&) = delete;
  CacheCharge& operator=(const CacheCharge&) = delete;

  bool counts() const { return tenant_ != nullptr; }
  uint64_t bytes() const { return bytes_; }
  // The owner wants to hold `bytes`. False: the quota has no room; nothing has changed.
  bool TryGrow(uint64_t bytes);
  // The owner holds `bytes`.
  void Set(uint64_t bytes);

 private:
  const std::shared_ptr<Tenant> tenant_;
  uint64_t bytes_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_TENANTS_TENANT_H_
