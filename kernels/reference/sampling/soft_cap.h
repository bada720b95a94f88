// The equation of the soft cap, which is also used for the scores of attention.
#ifndef LONGSTREAM_KERNELS_REFERENCE_SAMPLING_SOFT_CAP_H_
#define LONGSTREAM_KERNELS_REFERENCE_SAMPLING_SOFT_CAP_H_

#include <cmath>

namespace longstream::reference {

// cap tanh(x / cap), or x itself if there is no cap.
inline double Capped(double x, double cap) { return cap > 0.0 ? cap * std::tanh(x / cap) : x; }

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_SAMPLING_SOFT_CAP_H_
