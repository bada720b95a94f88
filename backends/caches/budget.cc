// The account of a model's cache memory.
#include "backends/caches/budget.h"

#include <cassert>
#include <limits>
#include <string>

#include "backends/errors/error.h"

namespace longstream {

uint64_t SaturatedBytes(uint64_t count, uint64_t each) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(count, each, &bytes) ? std::numeric_limits<uint64_t>::max() : bytes;
}

void Budget::Require(uint64_t bytes, const char* what) const {
  if (bytes <= free()) return;
  throw BackendError(LS_RESOURCE_EXHAUSTED, "cache budget: " + std::string(what) + " needs " +
                                                std::to_string(bytes) + " bytes, " +
                                                std::to_string(free()) + " of " +
                                                std::to_string(limit()) + " are free");
}

void Budget::Add(CacheKind kind, uint64_t bytes) {
  assert(bytes <= free());
  Account(kind).fetch_add(bytes, std::memory_order_relaxed);
  reserved_.fetch_add(bytes, std::memory_order_relaxed);
}

void Budget::Remove(CacheKind kind, uint64_t bytes) {
  assert(bytes <= held(kind));
  Account(kind).fetch_sub(bytes, std::memory_order_relaxed);
  reserved_.fetch_sub(bytes, std::memory_order_relaxed);
}

void Budget::Move(CacheKind from, CacheKind to, uint64_t bytes) {
  assert(bytes <= held(from));
  Account(from).fetch_sub(bytes, std::memory_order_relaxed);
  Account(to).fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace longstream
