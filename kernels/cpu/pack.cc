// Packing into panels. See kernels/ops/pack.h and panel.h.
#include "kernels/ops/pack.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/panel.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// Inputs transposed at a time: a block of 32 outputs stays in the first-level cache.
constexpr int64_t kBlock = 32;

template <typename T>
LONGSTREAM_INLINE void Convert(T from, T& to) {
  to = from;
}
LONGSTREAM_INLINE void Convert(BF16 from, float& to) { to = ToF32(from); }
LONGSTREAM_INLINE void Convert(F16 from, float& to) { to = ToF32(from); }
LONGSTREAM_INLINE void Convert(float from, BF16& to) { to = ToBF16(from); }

// Fills the lanes [begin, end) of one panel from source rows that start at `rows`.
template <typename Source, typename Target>
void PackLanes(const Source* rows, int64_t k, int64_t begin, int64_t end, Target* panel) {
  for (int64_t first = 0; first < k; first += kBlock) {
    const int64_t last = first + kBlock < k ? first + kBlock : k;
    for (int64_t lane = begin; lane < end; ++lane) {
      const Source* row = rows + (lane - begin) * k;
      for (int64_t i = first; i < last; ++i) Convert(row[i], panel[PanelIndex<Target>(i, lane)]);
    }
  }
}

template <typename Source, typename Target>
void PackRows(const Executor& executor, const PackArgs& args) {
  const int64_t end_row = args.first_row + args.num_rows;
  const int64_t first_panel = args.first_row / kPanelOutputs;
  const uint32_t num_tasks = static_cast<uint32_t>(NumPanels(end_row) - first_panel);
  ParallelFor(executor, num_tasks, [&](uint32_t task) {
    const int64_t panel = first_panel + task;
    const int64_t origin = panel * kPanelOutputs;  // output of lane 0
    const int64_t begin = origin < args.first_row ? args.first_row - origin : 0;
    const int64_t end = end_row - origin < kPanelOutputs ? end_row - origin : kPanelOutputs;
    const Source* rows =
        static_cast<const Source*>(args.source) + (origin + begin - args.first_row) * args.k;
    Target* to = static_cast<Target*>(args.destination) + panel * PanelElements(args.type, args.k);
    PackLanes(rows, args.k, begin, end, to);
  });
}

}  // namespace

size_t PackedBytes(DType type, int64_t n, int64_t k) {
  return static_cast<size_t>(NumPanels(n) * PanelElements(type, k)) * SizeOf(type);
}

void Pack(const Executor& executor, const PackArgs& args) {
  switch (args.type) {
    case DType::kF32:
      if (args.source_type == DType::kF32) return PackRows<float, float>(executor, args);
      if (args.source_type == DType::kF16) return PackRows<F16, float>(executor, args);
      return PackRows<BF16, float>(executor, args);
    case DType::kBF16:
      if (args.source_type == DType::kF32) return PackRows<float, BF16>(executor, args);
      return PackRows<BF16, BF16>(executor, args);
    case DType::kF16:
      return PackRows<F16, F16>(executor, args);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
