// The softmax that the reference attention ops share.
#ifndef LONGSTREAM_KERNELS_REFERENCE_ATTENTION_ATTENTION_H_
#define LONGSTREAM_KERNELS_REFERENCE_ATTENTION_ATTENTION_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/reference/cache/cache_access.h"

namespace longstream::reference {

// cap tanh(x / cap), or x where there is no cap.
inline double Capped(double x, double cap) { return cap > 0.0 ? cap * std::tanh(x / cap) : x; }

// out[i * head_dim + d] = sum_j softmax_j(score(j)) value(i, j)[d],
//                         begin <= j <= end, 0 <= i < slices, 0 <= d < head_dim
template <typename Score, typename Value>
void SoftmaxSum(int64_t begin, int64_t end, int64_t slices, int64_t head_dim, const Score& score,
                const Value& value, float* out) {
  std::vector<double> scores;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = begin; j <= end; ++j) {
    scores.push_back(score(j));
    largest = std::fmax(largest, scores.back());
  }
  double sum = 0.0;
  std::vector<double> weighted(static_cast<size_t>(slices * head_dim), 0.0);
  for (int64_t j = begin; j <= end; ++j) {
    const double weight = std::exp(scores[static_cast<size_t>(j - begin)] - largest);
    sum += weight;
    for (int64_t i = 0; i < slices; ++i) {
      const auto row = value(i, j);
      for (int64_t d = 0; d < head_dim; ++d) {
        weighted[static_cast<size_t>(i * head_dim + d)] += weight * At(row, d);
      }
    }
  }
  for (int64_t d = 0; d < slices * head_dim; ++d) {
    out[d] = static_cast<float>(weighted[static_cast<size_t>(d)] / sum);
  }
}

template <typename Row>
double Dot(const float* q, const Row& key, int64_t head_dim) {
  double sum = 0.0;
  for (int64_t d = 0; d < head_dim; ++d) sum += q[d] * At(key, d);
  return sum;
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_ATTENTION_ATTENTION_H_
