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

// Calls body(panel, rows, begin, end) for every panel that the source has rows of: they are lanes
// [begin, end) of it, the first at `rows`.
template <typename Source, typename Body>
LONGSTREAM_INLINE void ForEachPanel(const Executor& executor, const PackArgs& args,
                                    const Body& body) {
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
    body(panel, rows, begin, end);
  });
}

template <typename Source, typename Target>
void PackRows(const Executor& executor, const PackArgs& args) {
  ForEachPanel<Source>(
      executor, args, [&](int64_t panel, const Source* rows, int64_t begin, int64_t end) {
        Target* to =
            static_cast<Target*>(args.destination) + panel * PanelElements(args.type, args.k);
        PackLanes(rows, args.k, begin, end, to);
      });
}

// Puts what `lane` has of a group into its place, which is zero so far.
void StoreGroup(DType type, const WeightGroup& group, int64_t lane, uint8_t* to) {
  __builtin_memcpy(to + lane * static_cast<int64_t>(sizeof(F16)), &group.scale, sizeof(F16));
  for (int64_t i = 0; i < kGroupInputs; ++i) {
    const int value = group.values[i] + OffsetOf(type);
    const bool is_high = type == DType::kI4 && i >= kGroupInputs / 2;
    to[GroupByte(type, i, lane)] |= static_cast<uint8_t>(is_high ? value << 4 : value);
  }
}

template <typename Source>
void PackGroups(const Executor& executor, const PackArgs& args) {
  ForEachPanel<Source>(
      executor, args, [&](int64_t panel, const Source* rows, int64_t begin, int64_t end) {
        uint8_t* to =
            static_cast<uint8_t*>(args.destination) + panel * PanelBytes(args.type, args.k);
        for (int64_t first = 0; first < args.k; first += kGroupInputs) {
          const int64_t left = args.k - first;
          const int64_t count = left < kGroupInputs ? left : kGroupInputs;
          for (int64_t lane = begin; lane < end; ++lane) {
            const Source* row = rows + (lane - begin) * args.k + first;
            float weights[kGroupInputs];
            for (int64_t i = 0; i < count; ++i) Convert(row[i], weights[i]);
            StoreGroup(args.type, QuantiseGroup(args.type, weights, count), lane, to);
          }
          to += GroupBytes(args.type);
        }
      });
}

}  // namespace

size_t PackedBytes(DType type, int64_t n, int64_t k) {
  return static_cast<size_t>(NumPanels(n) * PanelBytes(type, k));
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
    case DType::kI8:
    case DType::kI4:
      if (args.source_type == DType::kF32) return PackGroups<float>(executor, args);
      if (args.source_type == DType::kF16) return PackGroups<F16>(executor, args);
      return PackGroups<BF16>(executor, args);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
