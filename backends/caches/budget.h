// The account of a model's cache memory, in bytes by kind.
#ifndef LONGSTREAM_BACKENDS_CACHES_BUDGET_H_
#define LONGSTREAM_BACKENDS_CACHES_BUDGET_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace longstream {

enum class CacheKind {
  kPages,     // pages in use, shared ones once
  kRings,     // rings of live sequences
  kStates,    // recurrent memory of live sequences
  kRollback,  // rollback copies of rings and states
  kPromised,  // reserved pages that no step has used yet
};

// count * each, or the largest uint64_t if the product needs more than 64 bits: no budget is that
// large.
uint64_t SaturatedBytes(uint64_t count, uint64_t each);

// One limit covers all memory that sequences hold or were promised. Before taking memory, a caller
// asks (Require); afterwards it books (Add). So a call that takes several kinds can ask for their
// sum and then cannot fail halfway.
//
// Written by one thread at a time; any thread may read held and reserved at any time.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}

  uint64_t limit() const { return limit_; }
  uint64_t held(CacheKind kind) const { return Account(kind).load(std::memory_order_relaxed); }
  // The sum over all kinds.
  uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }

  // Throws BackendError(LS_RESOURCE_EXHAUSTED) unless `bytes` are free. `what` names the purpose in
  // the sentence.
  void Require(uint64_t bytes, const char* what) const;

  // REQUIRES: that many bytes are free.
  void Add(CacheKind kind, uint64_t bytes);
  // REQUIRES: that many bytes are held.
  void Remove(CacheKind kind, uint64_t bytes);
  // Moves bytes from one kind to another; the sum does not change.
  void Move(CacheKind from, CacheKind to, uint64_t bytes);

 private:
  static constexpr size_t kNumKinds = 5;

  const std::atomic<uint64_t>& Account(CacheKind kind) const {
    return held_[static_cast<size_t>(kind)];
  }
  std::atomic<uint64_t>& Account(CacheKind kind) { return held_[static_cast<size_t>(kind)]; }

  const uint64_t limit_;
  std::array<std::atomic<uint64_t>, kNumKinds> held_{};
  std::atomic<uint64_t> reserved_{0};
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_BUDGET_H_
