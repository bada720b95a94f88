// Reference logit scale (kernels/ops/attention/logit_scale.h).
#include "kernels/ops/attention/logit_scale.h"

#include <cmath>

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void LogitScale(Stream& stream, const LogitScaleArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.num_rows; ++t) {
    const double n = std::fmax(static_cast<double>(args.positions[t]) + args.offset, args.minimum);
    args.out[t] = static_cast<float>(std::fmax(args.floor, std::log(n) / std::log(args.base)));
  }
}

}  // namespace longstream::reference
