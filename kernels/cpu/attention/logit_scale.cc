// Logit scale (kernels/ops/attention/logit_scale.h). A row takes one logarithm, which is too little
// work for threads.
#include "kernels/ops/attention/logit_scale.h"

#include <cmath>

#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void LogitScale(Stream& stream, const LogitScaleArgs& args) {
  if (!stream.ok()) return;
  const double log_base = std::log(args.base);
  for (int64_t t = 0; t < args.num_rows; ++t) {
    const double n = static_cast<double>(args.positions[t]) + args.offset;
    const double value = std::log(n > args.minimum ? n : args.minimum) / log_base;
    args.out[t] = static_cast<float>(value > args.floor ? value : args.floor);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
