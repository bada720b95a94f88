// Rotary position embedding in a config: where its base stands and which kinds are served.
#ifndef LONGSTREAM_BACKENDS_COMMON_PLAN_ROPE_CONFIG_H_
#define LONGSTREAM_BACKENDS_COMMON_PLAN_ROPE_CONFIG_H_

#include "backends/common/weights/config.h"

namespace longstream {

// The base theta: rope_theta, or rope_parameters.rope_theta as transformers 5 writes it; 10000
// where neither is there. rope_scaling and rope_parameters of a kind other than "default" are
// refused by name, and so are two bases that disagree.
double ReadRopeTheta(const Config& config);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_PLAN_ROPE_CONFIG_H_
