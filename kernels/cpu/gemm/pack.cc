// Packs weights into panels (kernels/ops/gemm/pack.h and panel.h).
#include "kernels/ops/gemm/pack.h"

#include "kernels/core/lanes/quantise_lanes.h"
#include "kernels/cpu/gemm/compressed_panel.h"
#include "kernels/cpu/gemm/panel.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of inputs that are transposed at a time. So many inputs of 32 outputs stay in the
// first-level cache.
constexpr int64_t kBlock = 32;

template <typename T>
LONGSTREAM_INLINE void Convert(T from, T& to) {
  to = from;
}
LONGSTREAM_INLINE void Convert(BF16 from, float& to) { to = ToF32(from); }
LONGSTREAM_INLINE void Convert(F16 from, float& to) { to = ToF32(from); }
LONGSTREAM_INLINE void Convert(float from, BF16& to) { to = ToBF16(from); }

// Fills the lanes [begin, end) of one panel from source rows, the first of which is at `rows`.
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

// bf16 numbers are copied in pairs of inputs, which are neighbours in both layouts.
template <>
void PackLanes<BF16, BF16>(const BF16* rows, int64_t k, int64_t begin, int64_t end, BF16* panel) {
  const int64_t even = k / 2 * 2;
  for (int64_t first = 0; first < even; first += kBlock) {
    const int64_t last = first + kBlock < even ? first + kBlock : even;
    for (int64_t lane = begin; lane < end; ++lane) {
      const BF16* row = rows + (lane - begin) * k;
      BF16* to = panel + PanelIndex<BF16>(first, lane);
      for (int64_t i = first; i < last; i += 2, to += 2 * kPanelOutputs) {
        __builtin_memcpy(to, row + i, 2 * sizeof(BF16));
      }
    }
  }
  if (even == k) return;
  for (int64_t lane = begin; lane < end; ++lane) {
    panel[PanelIndex<BF16>(even, lane)] = rows[(lane - begin) * k + even];
  }
}

// The number of elements of a source's row of k inputs.
template <typename Source>
LONGSTREAM_INLINE int64_t RowElements(int64_t k) {
  return k;
}
template <>
LONGSTREAM_INLINE int64_t RowElements<WeightGroup>(int64_t k) {
  return NumGroups(k);
}

// Calls body(panel, rows, begin, end) for every panel that gets rows of the source. These rows
// become the lanes [begin, end) of the panel; the first of them is at `rows`.
template <typename Source, typename Body>
LONGSTREAM_INLINE void ForEachPanel(const Executor& executor, const PackArgs& args,
                                    const Body& body) {
  const int64_t end_row = args.first_row + args.num_rows;
  const int64_t first_panel = args.first_row / kPanelOutputs;
  const uint32_t num_tasks = static_cast<uint32_t>(NumPanels(end_row) - first_panel);
  ParallelFor(executor, num_tasks, [&](uint32_t task) {
    const int64_t panel = first_panel + task;
    const int64_t origin = panel * kPanelOutputs;  // the output of lane 0
    const int64_t begin = origin < args.first_row ? args.first_row - origin : 0;
    const int64_t end = end_row - origin < kPanelOutputs ? end_row - origin : kPanelOutputs;
    const Source* rows = static_cast<const Source*>(args.source) +
                         (origin + begin - args.first_row) * RowElements<Source>(args.k);
    body(panel, rows, begin, end);
  });
}

// Where a panel's numbers begin.
LONGSTREAM_INLINE std::byte* PanelOf(const PackArgs& args, int64_t panel) {
  auto* weight = static_cast<std::byte*>(args.destination);
  if (!kCompressesBF16 || args.type != DType::kBF16) {
    return weight + panel * PanelBytes(args.type, args.k);
  }
  const int64_t begin = IndexBytes(args.n) + panel * MostPanelBytes(args.k);
  const auto line = static_cast<uint32_t>(begin / kLineBytes);
  __builtin_memcpy(weight + panel * static_cast<int64_t>(sizeof(line)), &line, sizeof(line));
  return weight + begin + kFrontBytes;
}

template <typename Source, typename Target>
void PackRows(const Executor& executor, const PackArgs& args) {
  ForEachPanel<Source>(
      executor, args, [&](int64_t panel, const Source* rows, int64_t begin, int64_t end) {
        PackLanes(rows, args.k, begin, end, reinterpret_cast<Target*>(PanelOf(args, panel)));
      });
}

// Inputs k ... k + 3 of each lane, in their stored form of one byte each.
LONGSTREAM_INLINE NativeI32 FourBytes(DType type, const LaneGroups& groups, int64_t k) {
  NativeI32 bytes = NativeBroadcast(0);
  for (int64_t i = 0; i < 4; ++i) {
    const NativeI32 byte = groups.values[k + i] + NativeBroadcast(OffsetOf(type));
    bytes |= (byte & NativeBroadcast(0xff)) << static_cast<int>(8 * i);
  }
  return bytes;
}

// kNativeLanes lanes of a panel, from lane `first` on. Of these, the source has rows for the lanes
// [begin, end).
struct PanelLanes {
  int64_t first;
  int64_t begin, end;
};

// Stores one group of inputs of the lanes [begin, end) at `to`, where this group of the panel
// begins. groups.values and groups.scales begin with lane lanes.first.
LONGSTREAM_INLINE void StoreGroups(DType type, const LaneGroups& groups, const PanelLanes& lanes,
                                   uint8_t* to) {
  const int64_t skipped = lanes.begin - lanes.first;
  const size_t count = static_cast<size_t>(lanes.end - lanes.begin);
  __builtin_memcpy(to + lanes.begin * static_cast<int64_t>(sizeof(F16)), groups.scales + skipped,
                   count * sizeof(F16));
  const int64_t last = type == DType::kI4 ? kGroupInputs / 2 : kGroupInputs;
  for (int64_t k = 0; k < last; k += 4) {
    NativeI32 bytes = FourBytes(type, groups, k);
    if (type == DType::kI4) bytes |= FourBytes(type, groups, k + last) << 4;
    int32_t stored[kNativeLanes];
    NativeStore(bytes, stored);
    __builtin_memcpy(to + GroupByte(type, k, lanes.begin), stored + skipped,
                     count * sizeof(int32_t));
  }
}

// Quantises the inputs [first, first + 32) of each lane of `lanes` as one group. `rows` is the row
// of lane lanes.begin.
template <typename Source>
void PackGroup(const PackArgs& args, const PanelLanes& lanes, const Source* rows, int64_t first,
               uint8_t* to) {
  const int64_t count = args.k - first < kGroupInputs ? args.k - first : kGroupInputs;
  const Source* row = rows + first;
  float weights[kGroupInputs][kNativeLanes] = {};
  for (int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
    for (int64_t i = 0; i < count; ++i) Convert(row[i], weights[i][lane - lanes.first]);
    row += args.k;
  }
  LaneGroups groups;
  QuantiseLanes(args.type, weights, &groups);
  StoreGroups(args.type, groups, lanes, to);
}

// Takes the groups of the source as they are.
template <>
void PackGroup<WeightGroup>(const PackArgs& args, const PanelLanes& lanes, const WeightGroup* rows,
                            int64_t first, uint8_t* to) {
  const int64_t stride = NumGroups(args.k);
  const WeightGroup* group = rows + first / kGroupInputs;
  int32_t values[kGroupInputs][kNativeLanes] = {};
  LaneGroups groups;
  for (int64_t lane = lanes.begin - lanes.first; lane < lanes.end - lanes.first; ++lane) {
    groups.scales[lane] = group->scale;
    for (int64_t i = 0; i < kGroupInputs; ++i) values[i][lane] = int32_t{group->values[i]};
    group += stride;
  }
  __builtin_memcpy(groups.values, values, sizeof(values));
  StoreGroups(args.type, groups, lanes, to);
}

template <typename Source>
void PackGroups(const Executor& executor, const PackArgs& args) {
  ForEachPanel<Source>(
      executor, args, [&](int64_t panel, const Source* rows, int64_t begin, int64_t end) {
        auto* to = reinterpret_cast<uint8_t*>(PanelOf(args, panel));
        for (int64_t k = 0; k < args.k; k += kGroupInputs) {
          for (int64_t first = begin / kNativeLanes * kNativeLanes; first < end;
               first += kNativeLanes) {
            const int64_t from = first < begin ? begin : first;
            const int64_t past = first + kNativeLanes < end ? first + kNativeLanes : end;
            PackGroup(args, {first, from, past},
                      rows + (from - begin) * RowElements<Source>(args.k), k, to);
          }
          to += GroupBytes(args.type);
        }
      });
}

}  // namespace

size_t PackedBytes(DType type, int64_t n, int64_t k) {
  if (kCompressesBF16 && type == DType::kBF16) {
    return static_cast<size_t>(IndexBytes(n) + NumPanels(n) * MostPanelBytes(k));
  }
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
      if (args.source_type == DType::kBF16) return PackGroups<BF16>(executor, args);
      return PackGroups<WeightGroup>(executor, args);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
