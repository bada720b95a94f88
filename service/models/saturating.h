// Sums and products of bytes. The largest number stands for all larger ones.
#ifndef LONGSTREAM_SERVICE_MODELS_SATURATING_H_
#define LONGSTREAM_SERVICE_MODELS_SATURATING_H_

#include <cstdint>
#include <limits>

namespace longstream {

inline uint64_t SumOf(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

inline uint64_t ProductOf(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_SATURATING_H_
