// Functions that all reference projections call: they prepare rows, and multiply a row with the
// weights of an output.
#ifndef LONGSTREAM_KERNELS_REFERENCE_GEMM_PROJECTION_H_
#define LONGSTREAM_KERNELS_REFERENCE_GEMM_PROJECTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/reference/gemm/weight.h"

namespace longstream::reference {

using Row = std::vector<double>;

inline double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double Silu(double x) { return x * Sigmoid(x); }

// Norm(x), or x itself if the norm is disabled.
inline Row Normalised(const float* x, int64_t size, const Norm& norm) {
  Row y(x, x + size);
  if (!norm.enabled()) return y;
  double mean = 0.0;
  if (norm.centred) {
    for (double value : y) mean += value / static_cast<double>(size);
  }
  for (double& value : y) value -= mean;
  double squares = 0.0;
  for (double value : y) squares += value * value;
  const double inverse_rms = 1.0 / std::sqrt(squares / static_cast<double>(size) + norm.eps);
  for (int64_t i = 0; i < size; ++i) {
    double& value = y[static_cast<size_t>(i)];
    value = value * inverse_rms * norm.weight[i] + (norm.bias == nullptr ? 0.0 : norm.bias[i]);
  }
  return y;
}

// Rounds the numbers of a group of h to int8 values times a scale, by f32 operations
// (core/matrix.h).
inline void QuantiseGroup(double* h, int64_t count) {
  float max = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(static_cast<float>(h[i]));
    if (magnitude > max || std::isnan(magnitude)) max = magnitude;
  }
  const bool is_finite = std::isfinite(max);
  const bool is_zero = max < 0x1p-100f;
  for (int64_t i = 0; i < count; ++i) {
    const float value = std::nearbyint(static_cast<float>(h[i]) * (127.0f / max));
    h[i] = is_zero ? 0.0 : is_finite ? double{value} * double{max / 127.0f} : NAN;
  }
}

// Rounds h as a product with a weight of this type rounds its rows: to bf16 for bf16, to int8 in
// groups for int8 and int4, to f32 for the other types.
inline Row RoundedFor(DType weight_type, Row h) {
  if (IsQuantised(weight_type)) {
    const auto size = static_cast<int64_t>(h.size());
    for (int64_t first = 0; first < size; first += kGroupInputs) {
      QuantiseGroup(&h[static_cast<size_t>(first)], std::min(kGroupInputs, size - first));
    }
    return h;
  }
  for (double& value : h) {
    const float single = static_cast<float>(value);
    value = weight_type == DType::kBF16 ? ToF32(ToBF16(single)) : single;
  }
  return h;
}

// The dot product of h and row `output` of the weight. REQUIRES: RoundedFor has rounded h.
inline double Dot(const Row& h, const PackedWeight& weight, int64_t output) {
  double sum = 0.0;
  for (int64_t i = 0; i < weight.k; ++i) {
    sum += h[static_cast<size_t>(i)] * WeightAt(weight, output, i);
  }
  return sum;
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_GEMM_PROJECTION_H_
