// Reference packing: a copy, with the conversion. See kernels/ops/pack.h.
#include "kernels/ops/pack.h"

#include "kernels/reference/reference_ops.h"
#include "kernels/reference/weight.h"

namespace longstream::reference {

size_t PackedBytes(DType type, int64_t n, int64_t k) {
  const size_t bytes = static_cast<size_t>(n) * static_cast<size_t>(k) * SizeOf(type);
  return (bytes + 63) / 64 * 64;
}

void Pack(const Executor&, const PackArgs& args) {
  for (int64_t i = 0; i < args.num_rows * args.k; ++i) {
    const float value = ElementAt(args.source, args.source_type, i);
    const int64_t to = args.first_row * args.k + i;
    switch (args.type) {
      case DType::kF32:
        static_cast<float*>(args.destination)[to] = value;
        break;
      case DType::kBF16:
        static_cast<BF16*>(args.destination)[to] = ToBF16(value);
        break;
      case DType::kF16:
        static_cast<F16*>(args.destination)[to] = static_cast<const F16*>(args.source)[i];
        break;
    }
  }
}

}  // namespace longstream::reference
