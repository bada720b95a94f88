// Norm, addition, gate and rounding of rows before a projection.
#include "kernels/cpu/gemm/prepared_rows.h"

#include <limits>

#include "kernels/cpu/simd/int8_rows.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of rows of a task. A task has several rows, because one row costs less than waking a
// thread.
constexpr int64_t kTaskRows = 4;

// The inputs of one row. Inputs that a call does not have are nullptr.
struct RowInputs {
  const float* x;
  const float* norm_weight;
  const float* norm_bias;
  float mean;  // 0 for RMSNorm
  float inverse_rms;
  const float* addend;
  const float* gate;
  bool silu_gate;
};

RowInputs InputsOf(const LinearRows& source, int64_t r, int64_t k) {
  RowInputs in = {};
  in.x = source.x.f32_row(r);
  if (source.norm.enabled()) {
    in.norm_weight = source.norm.weight;
    in.norm_bias = source.norm.bias;
    if (source.norm.centred) {
      in.mean = Mean(in.x, k);
      in.inverse_rms = InverseDeviation(in.x, k, in.mean, source.norm.eps);
    } else {
      in.inverse_rms = InverseRms(in.x, k, source.norm.eps);
    }
  }
  if (source.addend.data != nullptr) in.addend = source.addend.f32_row(source.addend_rows[r]);
  if (source.gate.data != nullptr) in.gate = source.gate.f32_row(r);
  in.silu_gate = source.silu_gate;
  return in;
}

// The numbers h[i] ... h[i + 15] of a prepared row.
template <typename Access>
LONGSTREAM_INLINE F32x16 PreparedVector(const RowInputs& in, int64_t i, const Access& access) {
  F32x16 value = access.Read(in.x + i);
  if (in.norm_weight != nullptr) {
    value =
        (value - Broadcast(in.mean)) * Broadcast(in.inverse_rms) * access.Read(in.norm_weight + i);
    if (in.norm_bias != nullptr) value = value + access.Read(in.norm_bias + i);
  }
  if (in.addend != nullptr) value = value + access.Read(in.addend + i);
  if (in.gate != nullptr) {
    const F32x16 gate = access.Read(in.gate + i);
    value = value * Sigmoid(gate);
    if (in.silu_gate) value = value * gate;
  }
  return value;
}

template <typename T>
void PrepareRow(const RowInputs& in, DType weight_type, int64_t k, T* h) {
  ForEachRowVector(k, [&](int64_t i, const auto& access) {
    const F32x16 value = PreparedVector(in, i, access);
    access.Write(weight_type == DType::kBF16 ? RoundedInput(value) : value, h + i);
  });
  if (weight_type == DType::kBF16) PadRow(k, h);
}

void PrepareRow(const RowInputs& in, DType, int64_t k, RowGroup* h) {
  for (int64_t first = 0; first < k; first += kGroupInputs) {
    alignas(64) float values[kGroupInputs] = {};
    const int64_t left = k - first;
    ForEachRowVector(left < kGroupInputs ? left : kGroupInputs, [&](int64_t i, const auto& access) {
      access.Write(PreparedVector(in, first + i, access), values + i);
    });
    PrepareGroup(values, h++);
  }
}

// Prepares rows in the workspace. A row has `stride` elements of type T.
template <typename T>
PreparedRows PrepareInWorkspace(Stream& stream, const LinearInput& in, int64_t num_rows,
                                int64_t stride) {
  T* h = reinterpret_cast<T*>(stream.workspace);
  const DType weight_type = in.weight().type;
  const int64_t k = in.weight().k;
  const int64_t num_tasks = (num_rows + kTaskRows - 1) / kTaskRows;
  ParallelFor(stream.executor, static_cast<uint32_t>(num_tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskRows;
    const int64_t last = first + kTaskRows < num_rows ? first + kTaskRows : num_rows;
    for (int64_t r = first; r < last; ++r) {
      PrepareRow(InputsOf(in.rows(), r, k), weight_type, k, h + r * stride);
    }
  });
  return {h, stride};
}

}  // namespace

// The equations are in core/matrix.h.
void PrepareGroup(const float* values, RowGroup* group) {
  const float max = LargestMagnitude(values, kGroupInputs);
  const bool finite = max < std::numeric_limits<float>::infinity();
  *group = {};
  if (!finite) group->scale = std::numeric_limits<float>::quiet_NaN();
  if (!finite || max < 0x1p-100f) return;

  group->scale = max / 127.0f;
  const F32x16 inverse = Broadcast(127.0f / max);
  const F32x16 low = RoundToInteger(Load(values) * inverse);
  const F32x16 high = RoundToInteger(Load(values + kLanes) * inverse);
  Store(low, group->values);
  Store(high, group->values + kLanes);
  group->sum = static_cast<int32_t>(Sum(low + high));
}

PreparedRows PrepareRows(Stream& stream, const LinearInput& in, int64_t num_rows) {
  const LinearRows& source = in.rows();
  const DType type = in.weight().type;
  const int64_t k = in.weight().k;
  const bool unchanged = type != DType::kBF16 && !IsQuantised(type) && !source.norm.enabled() &&
                         source.addend.data == nullptr && source.gate.data == nullptr;
  if (unchanged) return {source.x.data, source.x.stride};
  const int64_t stride = PreparedStride(type, k);
  if (in.is_prepared()) return {source.x.data, stride};
  if (stream.workspace_bytes < LinearWorkspace(num_rows, k)) {
    stream.Fail(OpStatus::kUnsupported);
    return {};
  }
  switch (type) {
    case DType::kI8:
    case DType::kI4:
      return PrepareInWorkspace<RowGroup>(stream, in, num_rows, stride);
    case DType::kBF16:
      return PrepareInWorkspace<BF16Activation>(stream, in, num_rows, stride);
    case DType::kF32:
    case DType::kF16:
      return PrepareInWorkspace<float>(stream, in, num_rows, stride);
  }
  return {};
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
