// The account of a model's cache memory, in bytes by kind.
#ifndef LONGSTREAM_BACKENDS_CACHES_BUDGET_H_
#define LONGSTREAM_BACKENDS_CACHES_BUDGET_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace longstream {

enum class CacheKind {
  kPages,     // pages in use; a shared page counts once
  kRings,     // rings of live sequences
  kStates,    // recurrent memory of live sequences
  kRollback,  // rollback copies of rings and states
  kPromised,  // reserved pages that no step has used yet
};

// count * each. If the product exceeds 64 bits, returns the largest uint64_t, because no budget is
// that large.
uint64_t SaturatedBytes(uint64_t count, uint64_t each);

// One limit covers all memory that sequences hold or that was promised to them. A caller first
// checks that memory is free (Require), and after taking it adds the bytes to the account (Add). So
// a call that takes several kinds can check their sum first and cannot fail halfway.
//
// One thread at a time may write. Any thread may read `limit`, `held` and `reserved` at any time.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}

  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // More than the new limit may be held already. Then nothing is free until enough is removed.
  void set_limit(uint64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  uint64_t free() const { return limit() - std::min(limit(), reserved()); }
  uint64_t held(CacheKind kind) const { return Account(kind).load(std::memory_order_relaxed); }
  // The sum over all kinds.
  uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }

  // Throws BackendError(LS_RESOURCE_EXHAUSTED) unless `bytes` are free. `what` names the purpose in
  // the sentence.
  void Require(uint64_t bytes, const char* what) const;

  // REQUIRES: at least that many bytes are free (Require).
  void Add(CacheKind kind, uint64_t bytes);
  // REQUIRES: at least that many bytes of this kind are held.
  void Remove(CacheKind kind, uint64_t bytes);
  // Moves bytes from one kind to another; the sum does not change.
  void Move(CacheKind from, CacheKind to, uint64_t bytes);

 private:
  static constexpr size_t kNumKinds = 5;

  const std::atomic<uint64_t>& Account(CacheKind kind) const {
    return held_[static_cast<size_t>(kind)];
  }
  std::atomic<uint64_t>& Account(CacheKind kind) { return held_[static_cast<size_t>(kind)]; }

  std::atomic<uint64_t> limit_;
  std::array<std::atomic<uint64_t>, kNumKinds> held_{};
  std::atomic<uint64_t> reserved_{0};
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_BUDGET_H_
