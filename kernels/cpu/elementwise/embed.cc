// Embedding lookup in a packed table (kernels/ops/elementwise/embed.h).
//
// Consecutive inputs of a row lie in different cache lines, because a panel interleaves 32 rows. A
// line has one element of a row, or two or four neighbours. So 1024 bf16 elements of a row take 512
// lines, or 768 if they are compressed. This is the price of sharing the table with the
// language-model head. It is small compared with one projection of the same row.
#include "kernels/ops/elementwise/embed.h"

#include <cstring>

#include "kernels/cpu/gemm/compressed_panel.h"
#include "kernels/cpu/gemm/panel.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

template <typename T>
void EmbedRow(const PackedWeight& table, int32_t id, float multiplier, float* out) {
  const T* panel =
      static_cast<const T*>(table.data) + id / kPanelOutputs * PanelElements(table.type, table.k);
  const int64_t lane = id % kPanelOutputs;
  for (int64_t i = 0; i < table.k; ++i) {
    out[i] = multiplier * longstream::ToF32(panel[PanelIndex<T>(i, lane)]);
  }
}

// Reads a row of a bf16 table, whose panels may be compressed.
void EmbedRowOfSteps(const PackedWeight& table, int32_t id, float multiplier, float* out) {
  const PanelView panel(PanelAt(table, id / kPanelOutputs), table.k);
  const int64_t output = id % kPanelOutputs;
  const auto put = [&](int64_t i, BF16 number) {
    if (i < table.k) out[i] = multiplier * longstream::ToF32(number);
  };
  for (int64_t i = 0; i < table.k; ++i) {
    put(i, panel.NumberAt(i / kStepInputs, output * kStepInputs + i % kStepInputs));
  }
  for (Patches patches = panel.patches(); patches.step() < panel.num_steps();) {
    const int64_t i = patches.step() * kStepInputs;
    const Patch patch = patches.Take();
    if (patch.step_and_output % kPanelOutputs != output) continue;
    put(i, {static_cast<uint16_t>(patch.numbers)});
    put(i + 1, {static_cast<uint16_t>(patch.numbers >> 16)});
  }
}

// The value of input k of a group, from the byte that stores it (panel.h).
LONGSTREAM_INLINE int ValueIn(DType type, uint8_t byte, int64_t k) {
  if (type == DType::kI4) return (k < kGroupInputs / 2 ? byte & 15 : byte >> 4) - kI4Offset;
  return ((byte + 128 - kI8Offset) & 255) - 128;
}

void EmbedQuantisedRow(const PackedWeight& table, int32_t id, float multiplier, float* out) {
  const DType type = table.type;
  const auto* group =
      static_cast<const uint8_t*>(table.data) + id / kPanelOutputs * PanelBytes(type, table.k);
  const int64_t lane = id % kPanelOutputs;
  for (int64_t i = 0; i < table.k; ++i) {
    const int64_t k = i % kGroupInputs;
    if (i > 0 && k == 0) group += GroupBytes(type);
    F16 scale;
    __builtin_memcpy(&scale, group + lane * static_cast<int64_t>(sizeof(F16)), sizeof(F16));
    const int value = ValueIn(type, group[GroupByte(type, k, lane)], k);
    out[i] = multiplier * (longstream::ToF32(scale) * static_cast<float>(value));
  }
}

}  // namespace

void Embed(Stream& stream, const EmbedArgs& args) {
  if (!stream.ok()) return;
  const uint32_t num_rows = static_cast<uint32_t>(args.out.rows);
  ParallelFor(stream.executor, num_rows, [&](uint32_t t) {
    float* out = args.out.f32_row(t);
    const int32_t id = args.ids[t] >= 0 ? args.ids[t] : args.sampled[~args.ids[t]];
    if (id < 0) {
      std::memset(out, 0, static_cast<size_t>(args.table.k) * sizeof(float));
      return;
    }
    switch (args.table.type) {
      case DType::kF32:
        return EmbedRow<float>(args.table, id, args.multiplier, out);
      case DType::kF16:
        return EmbedRow<F16>(args.table, id, args.multiplier, out);
      case DType::kBF16:
        if (kCompressesBF16) return EmbedRowOfSteps(args.table, id, args.multiplier, out);
        return EmbedRow<BF16>(args.table, id, args.multiplier, out);
      case DType::kI8:
      case DType::kI4:
        return EmbedQuantisedRow(args.table, id, args.multiplier, out);
    }
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
