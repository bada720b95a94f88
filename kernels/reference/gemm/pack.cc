// Reference packing: copies and converts (kernels/ops/gemm/pack.h).
#include "kernels/ops/gemm/pack.h"

#include <algorithm>

#include "kernels/core/quantise.h"
#include "kernels/reference/gemm/weight.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

void PackGroups(const PackArgs& args) {
  const int64_t groups = NumGroups(args.k);
  auto* to = static_cast<WeightGroup*>(args.destination) + args.first_row * groups;
  if (IsQuantised(args.source_type)) {
    std::copy_n(static_cast<const WeightGroup*>(args.source), args.num_rows * groups, to);
    return;
  }
  for (int64_t row = 0; row < args.num_rows; ++row) {
    for (int64_t first = 0; first < args.k; first += kGroupInputs) {
      const int64_t count = std::min(kGroupInputs, args.k - first);
      float weights[kGroupInputs];
      for (int64_t i = 0; i < count; ++i) {
        weights[i] = ElementAt(args.source, args.source_type, row * args.k + first + i);
      }
      *to++ = QuantiseGroup(args.type, weights, count);
    }
  }
}

}  // namespace

size_t PackedBytes(DType type, int64_t n, int64_t k) {
  const int64_t row_bytes = IsQuantised(type)
                                ? NumGroups(k) * static_cast<int64_t>(sizeof(WeightGroup))
                                : k * static_cast<int64_t>(SizeOf(type));
  return static_cast<size_t>(n * row_bytes + 63) / 64 * 64;
}

void Pack(const Executor&, const PackArgs& args) {
  if (IsQuantised(args.type)) return PackGroups(args);
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
      case DType::kI8:
      case DType::kI4:
        break;
    }
  }
}

// Does nothing: a packed weight has only one form here.
void Compress(const Executor&, const CompressArgs&) {}

size_t ReadBytes(const PackedWeight& weight) {
  return PackedBytes(weight.type, weight.n, weight.k);
}

}  // namespace longstream::reference
