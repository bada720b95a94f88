// Counts what a tenant uses, and refuses what is beyond its quotas.
#include "service/security/tenants/tenant.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "service/errors/retry_after.h"

namespace longstream {
namespace {

// Long enough for some turn to end, and so short that a client hardly notices it.
constexpr absl::Duration kSoon = absl::Seconds(1);

}  // namespace

const char* NameOf(Quota quota) {
  switch (quota) {
    case Quota::kSessions:
      return "sessions";
    case Quota::kSessionBytes:
      return "session_bytes";
    case Quota::kTokensPerMinute:
      return "tokens_per_minute";
    case Quota::kTurns:
      return "turns";
    case Quota::kTransfers:
      return "transfers";
  }
  return "";
}

Tenant::Tenant(const TenantConfig& config, size_t index, std::shared_ptr<HostMemory> all,
               bool is_configured, MonotonicClock clock)
    : config_(config),
      index_(index),
      is_configured_(is_configured),
      clock_(std::move(clock)),
      all_(std::move(all)),
      host_memory_(
          config_.quotas.session_bytes, all_.get(),
          [this](uint64_t bytes) {
            return Refuse(
                Quota::kSessionBytes,
                absl::StrCat("the tenant's sessions and turns hold ", host_memory_.held_bytes(),
                             " bytes of the host's memory, and this needs ", bytes,
                             " more; the limit is ", config_.quotas.session_bytes),
                kSoon);
          }),
      bucket_(config_.quotas.tokens_per_minute) {}

absl::Status Tenant::Refuse(Quota quota, const std::string& why, absl::Duration retry_after) {
  refusals_[static_cast<size_t>(quota)].fetch_add(1, std::memory_order_relaxed);
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat("quota ", NameOf(quota), ": ", why)), retry_after);
}

absl::Status Tenant::TakeSession() {
  if (!is_configured_) return absl::OkStatus();
  const uint64_t limit = config_.quotas.sessions;
  {
    absl::MutexLock lock(&mutex_);
    if (limit == 0 || sessions_ + stored_ < limit) {
      ++sessions_;
      return absl::OkStatus();
    }
  }
  return Refuse(Quota::kSessions,
                absl::StrCat("the tenant has ", limit, " open sessions, its limit; close some"),
                absl::InfiniteDuration());
}

void Tenant::ReturnSession() {
  if (!is_configured_) return;
  absl::MutexLock lock(&mutex_);
  assert(sessions_ > 0);
  --sessions_;
}

void Tenant::MoveSessionToStore() {
  if (!is_configured_) return;
  absl::MutexLock lock(&mutex_);
  assert(sessions_ > 0);
  --sessions_;
  ++stored_;
}

void Tenant::ReturnStored() {
  absl::MutexLock lock(&mutex_);
  if (stored_ > 0) --stored_;
}

void Tenant::CountStored(uint64_t sessions) {
  absl::MutexLock lock(&mutex_);
  stored_ = sessions;
}

bool Tenant::TryTakeCaches(uint64_t bytes) {
  const uint64_t limit = config_.quotas.session_bytes;
  uint64_t held = cache_bytes_.load(std::memory_order_relaxed);
  do {
    const uint64_t taken = held + host_memory_.held_bytes();
    if (limit != 0 && (taken > limit || bytes > limit - taken)) return false;
  } while (!cache_bytes_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  return true;
}

bool Tenant::OverBytes() const {
  const uint64_t limit = config_.quotas.session_bytes;
  return limit != 0 && held_bytes() > limit;
}

bool Tenant::WouldFit(uint64_t bytes, uint64_t freed) const {
  const uint64_t limit = config_.quotas.session_bytes;
  const uint64_t caches = cache_bytes_.load(std::memory_order_relaxed);
  const uint64_t kept = host_memory_.held_bytes() + caches - std::min(caches, freed);
  return limit == 0 || (kept <= limit && bytes <= limit - kept);
}

absl::Status Tenant::RefuseCaches(uint64_t bytes) {
  return Refuse(
      Quota::kSessionBytes,
      absl::StrCat("the tenant's sessions and turns hold ", held_bytes(), " bytes, of which ",
                   host_memory_.held_bytes(), " are on the host, and this needs ", bytes,
                   " more for caches; the limit is ", config_.quotas.session_bytes),
      WouldFit(bytes, cache_bytes_.load(std::memory_order_relaxed)) ? kSoon
                                                                    : absl::InfiniteDuration());
}

absl::StatusOr<TurnAllowance> Tenant::BeginTurn(uint64_t tokens) {
  if (!is_configured_) return TurnAllowance();
  const TenantQuotas& quotas = config_.quotas;
  absl::Duration wait;
  bool has_turn = true;
  double level = 0.0;
  uint64_t taken = 0;
  {
    absl::MutexLock lock(&mutex_);
    const MonotonicTime now = clock_();
    has_turn = quotas.turns == 0 || turns_ < quotas.turns;
    if (has_turn) wait = bucket_.Take(tokens, now, &taken);
    if (has_turn && wait == absl::ZeroDuration()) {
      ++turns_;
      return TurnAllowance(shared_from_this(), taken);
    }
    level = bucket_.level(now);
  }
  if (!has_turn) {
    return Refuse(
        Quota::kTurns,
        absl::StrCat("the tenant has ", quotas.turns, " turns that wait or run, its limit"), kSoon);
  }
  return RefuseTokens(tokens, level, wait);
}

absl::Status Tenant::RefuseTokens(uint64_t tokens, double level, absl::Duration wait) {
  return Refuse(Quota::kTokensPerMinute,
                absl::StrCat("the turn may take ", tokens, " tokens, and the tenant has ",
                             static_cast<int64_t>(level), " left; the limit is ",
                             config_.quotas.tokens_per_minute, " a minute"),
                wait);
}

absl::Status Tenant::TakeMore(uint64_t tokens, uint64_t before, uint64_t* taken) {
  absl::Duration wait;
  double level = 0.0;
  {
    absl::MutexLock lock(&mutex_);
    const MonotonicTime now = clock_();
    if (bucket_.Take(tokens, now, taken) == absl::ZeroDuration()) return absl::OkStatus();
    // The turn is rolled back, and begins anew with all its tokens.
    wait = bucket_.WaitFor(before + tokens, now);
    level = bucket_.level(now);
  }
  return RefuseTokens(before + tokens, level, wait);
}

absl::Status Tenant::TakeTransfer() {
  if (!is_configured_) return absl::OkStatus();
  const uint64_t limit = config_.quotas.transfers;
  {
    absl::MutexLock lock(&mutex_);
    if (limit == 0 || transfers_ < limit) {
      ++transfers_;
      return absl::OkStatus();
    }
  }
  return Refuse(Quota::kTransfers,
                absl::StrCat("the tenant has ", limit, " exports and imports that run, its limit"),
                kSoon);
}

void Tenant::ReturnTransfer() {
  if (!is_configured_) return;
  absl::MutexLock lock(&mutex_);
  assert(transfers_ > 0);
  --transfers_;
}

void Tenant::EndTurn(uint64_t unused_tokens) {
  absl::MutexLock lock(&mutex_);
  --turns_;
  bucket_.GiveBack(unused_tokens, clock_());
}

void Tenant::TakeUsedTokens(uint64_t tokens) {
  absl::MutexLock lock(&mutex_);
  bucket_.TakeUsed(tokens, clock_());
}

TenantUse Tenant::use() const {
  TenantUse use;
  use.host_bytes = host_memory_.held_bytes();
  use.cache_bytes = cache_bytes_.load(std::memory_order_relaxed);
  use.tokens = tokens_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < kNumQuotas; ++i) {
    use.refusals[i] = refusals_[i].load(std::memory_order_relaxed);
  }
  absl::MutexLock lock(&mutex_);
  use.sessions = sessions_ + stored_;
  use.turns = turns_;
  use.transfers = transfers_;
  return use;
}

TurnAllowance::TurnAllowance(TurnAllowance&& other) noexcept { *this = std::move(other); }

TurnAllowance& TurnAllowance::operator=(TurnAllowance&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  std::shared_ptr<Tenant> tenant;
  uint64_t left = 0, taken = 0;
  {
    absl::MutexLock lock(&other.mutex_);
    tenant = std::move(other.tenant_);
    left = std::exchange(other.left_, 0);
    taken = std::exchange(other.taken_, 0);
  }
  absl::MutexLock lock(&mutex_);
  tenant_ = std::move(tenant);
  left_ = left;
  taken_ = taken;
  return *this;
}

absl::Status TurnAllowance::Take(uint64_t tokens) {
  absl::MutexLock lock(&mutex_);
  if (tenant_ == nullptr || tokens == 0) return absl::OkStatus();
  uint64_t taken = 0;
  absl::Status status = tenant_->TakeMore(tokens, taken_, &taken);
  left_ += taken;
  taken_ += taken;
  return status;
}

void TurnAllowance::Count(uint64_t tokens) {
  absl::MutexLock lock(&mutex_);
  if (tenant_ == nullptr) return;
  tenant_->tokens_.fetch_add(tokens, std::memory_order_relaxed);
  const uint64_t covered = std::min(tokens, left_);
  left_ -= covered;
  if (tokens > covered) tenant_->TakeUsedTokens(tokens - covered);
}

void TurnAllowance::GiveBack() {
  std::shared_ptr<Tenant> tenant;
  uint64_t left = 0;
  {
    absl::MutexLock lock(&mutex_);
    tenant = std::exchange(tenant_, nullptr);
    left = std::exchange(left_, 0);
  }
  if (tenant != nullptr) tenant->EndTurn(left);
}

bool CacheCharge::TryGrow(uint64_t bytes) {
  if (tenant_ == nullptr || bytes <= bytes_) return true;
  if (!tenant_->TryTakeCaches(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void CacheCharge::Set(uint64_t bytes) {
  if (tenant_ == nullptr) return;
  if (bytes > bytes_) tenant_->TakeCaches(bytes - bytes_);
  if (bytes < bytes_) tenant_->ReturnCaches(bytes_ - bytes);
  bytes_ = bytes;
}

}  // namespace longstream
