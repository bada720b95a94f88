// How far each pair of a head rotates per position, after the config's scaling.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_SCALING_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_SCALING_H_

#include <cstdint>
#include <vector>

#include "backends/spec/model_spec.h"

namespace longstream {

// The rotation before scaling: frequencies theta^(-2 i / R), i = 0 ... R / 2 - 1.
struct RopeBase {
  double theta = 10000.0;
  int32_t rotated = 0;  // R
};

// Frequencies are computed in double, from numbers known when the model loads. Each function
// returns a RopeSpec with rotated = R and R / 2 frequencies f_i.

//   f_i = theta^(-2 i / R)
RopeSpec PlainRope(const RopeBase& base);

// Position interpolation (Chen et al., arXiv 2306.15595):  f_i = theta^(-2 i / R) / factor
RopeSpec LinearRope(const RopeBase& base, double factor);

// NTK-aware scaling changes the base:  theta' = theta * growth^(R / (R - 2)). REQUIRES: R > 2.
RopeSpec NtkRope(const RopeBase& base, double growth);

// YaRN (Peng et al., arXiv 2309.00071). Pairs that rotate more than beta_fast times within
// original_length keep their frequency. Pairs that rotate less than beta_slow times are
// interpolated by `factor`. A ramp blends the pairs between them; with `truncate`, its ends are
// whole pairs. REQUIRES: theta > 1.
struct YarnScaling {
  double factor = 1.0;
  double original_length = 0.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  double attention_factor = 1.0;
};
RopeSpec YarnRope(const RopeBase& base, const YarnScaling& scaling);

// 0.1 * mscale * ln(factor) + 1 if factor >= 1, else 1.
double YarnMagnitude(double factor, double mscale = 1.0);

// Llama 3: wavelengths above original_length / low_freq_factor are interpolated by `factor`,
// wavelengths below original_length / high_freq_factor stay, and wavelengths between are blended.
struct Llama3Scaling {
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_length = 0.0;
};
RopeSpec Llama3Rope(const RopeBase& base, const Llama3Scaling& scaling);

// LongRoPE (Ding et al., arXiv 2402.13753):  f_i = theta^(-2 i / R) / factors_i. REQUIRES: R / 2
// factors.
RopeSpec LongRope(const RopeBase& base, const std::vector<double>& factors,
                  double attention_factor);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_SCALING_H_
