// Reference soft cap (kernels/ops/sampling/soft_cap.h).
#include "kernels/ops/sampling/soft_cap.h"

#include <algorithm>

#include "kernels/reference/reference_ops.h"
#include "kernels/reference/sampling/soft_cap.h"

namespace longstream::reference {

void SoftCap(Stream& stream, const SoftCapArgs& args) {
  if (!stream.ok()) return;
  for (int64_t r = 0; r < args.x.rows; ++r) {
    float* x = args.x.f32_row(r);
    for (int64_t c = 0; c < args.x.cols; ++c) {
      x[c] = args.cut ? std::clamp(x[c], -args.cap, args.cap)
                      : static_cast<float>(Capped(x[c], args.cap));
    }
  }
}

}  // namespace longstream::reference
