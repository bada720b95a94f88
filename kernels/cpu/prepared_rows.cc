// Normalising, adding, gating and rounding of rows before a projection.
#include "kernels/cpu/prepared_rows.h"

#include "kernels/cpu/row_vectors.h"
#include "kernels/ops/norm_project.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// Rows per task: a row costs less than waking a thread.
constexpr int64_t kTaskRows = 4;

// The inputs of one row; absent ones are nullptr.
struct RowInputs {
  const float* x;
  const float* norm_weight;
  float inverse_rms;
  const float* addend;
  const float* gate;
};

template <typename Access, typename T>
LONGSTREAM_INLINE void PrepareVector(const RowInputs& in, bool round, int64_t i,
                                     const Access& access, T* h) {
  F32x16 value = access.Read(in.x + i);
  if (in.norm_weight != nullptr) {
    value = value * Broadcast(in.inverse_rms) * access.Read(in.norm_weight + i);
  }
  if (in.addend != nullptr) value = value + access.Read(in.addend + i);
  if (in.gate != nullptr) value = value * Sigmoid(access.Read(in.gate + i));
  if (round) value = RoundToBF16(value);
  access.Write(value, h + i);
}

template <typename T>
void PrepareRow(const RowSource& source, int64_t r, bool round, int64_t k, T* h) {
  RowInputs in = {};
  in.x = source.x.f32_row(source.rows != nullptr ? source.rows[r] : r);
  if (source.norm.enabled()) {
    in.norm_weight = source.norm.weight;
    in.inverse_rms = InverseRms(in.x, k, source.norm.eps);
  }
  if (source.addend.data != nullptr) in.addend = source.addend.f32_row(source.addend_rows[r]);
  if (source.gate.data != nullptr) in.gate = source.gate.f32_row(r);
  ForEachRowVector(k,
                   [&](int64_t i, const auto& access) { PrepareVector(in, round, i, access, h); });
  if (k % 2 != 0) h[k] = T{};
}

template <typename T>
PreparedRows PrepareInWorkspace(Stream& stream, const RowSource& source, bool round, int64_t k) {
  // Whole cache lines. An odd k leaves room for the zero behind it.
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t stride = (k + kLine - 1) / kLine * kLine;
  T* h = reinterpret_cast<T*>(stream.workspace);
  const int64_t num_tasks = (source.num_rows + kTaskRows - 1) / kTaskRows;
  ParallelFor(stream.executor, static_cast<uint32_t>(num_tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskRows;
    const int64_t last = first + kTaskRows < source.num_rows ? first + kTaskRows : source.num_rows;
    for (int64_t r = first; r < last; ++r) PrepareRow(source, r, round, k, h + r * stride);
  });
  return {h, stride};
}

}  // namespace

PreparedRows PrepareRows(Stream& stream, const RowSource& source, DType weight_type, int64_t k) {
  const bool round = weight_type == DType::kBF16;
  const bool unchanged = !round && source.rows == nullptr && !source.norm.enabled() &&
                         source.addend.data == nullptr && source.gate.data == nullptr;
  if (unchanged) return {source.x.data, source.x.stride};
  if (stream.workspace_bytes < NormProjectWorkspace(source.num_rows, k)) {
    stream.Fail(OpStatus::kUnsupported);
    return {};
  }
  return round ? PrepareInWorkspace<BF16Activation>(stream, source, true, k)
               : PrepareInWorkspace<float>(stream, source, false, k);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
