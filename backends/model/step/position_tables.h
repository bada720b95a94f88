// Rotary tables and logit scales. They depend on positions alone, so a step computes them once, and
// all layers of one kind share them.
#ifndef LONGSTREAM_BACKENDS_MODEL_STEP_POSITION_TABLES_H_
#define LONGSTREAM_BACKENDS_MODEL_STEP_POSITION_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/caches/device_memory.h"
#include "backends/spec/model_spec.h"
#include "kernels/core/stream.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Which tables a layer reads; nullptr: no rotation, or a scale of 1.
struct LayerTables {
  const float* q = nullptr;      // [T, D] queries; of ReRoPE, those for near keys
  const float* q_far = nullptr;  // [T, D] queries for far keys, ReRoPE only
  const float* k = nullptr;      // [T, D] keys; of ReRoPE, those in the pages
  const float* near = nullptr;   // [T, D] the rotation that makes a near key of a key in the pages
  const float* q_scale = nullptr;  // [T]
};

class PositionTables {
 public:
  // Throws BackendError(LS_RESOURCE_EXHAUSTED). `device` must outlive the tables.
  PositionTables(const ModelSpec& spec, int64_t max_rows, Device& device = HostMemory());

  // Fills all tables for rows at `positions` [num_rows].
  void Compute(const OpTable& ops, Stream& stream, const int64_t* positions, int64_t num_rows);

  LayerTables layer(size_t layer) const;

  // Computes the near table [num_rows, D] of a ReRoPE layer for positions other than the step's,
  // and writes it to `out`.
  void ComputeNear(const OpTable& ops, Stream& stream, size_t layer, const int64_t* positions,
                   int64_t num_rows, float* out) const;

  uint64_t bytes() const { return memory_.size(); }

 private:
  // A rotation as a function of the position (kernels/ops/elementwise/rope_table.h).
  struct Rotation {
    RopeSpec rope;
    int32_t head_dim = 0;
    double scale = 1.0;
    double offset = 0.0;
    int64_t modulo = 0;
    float magnitude = 1.0f;
    bool operator==(const Rotation&) const = default;
  };
  struct Scale {
    LogitScaleKind kind = LogitScaleKind::kNone;
    double base = 0.0;
    bool operator==(const Scale&) const = default;
  };
  struct RotationTable {
    Rotation rotation;
    size_t inv_freq = 0;  // offset in inv_freq_ of the table's [D / 2] frequencies
    size_t offset = 0;    // offset in memory_ of the table
  };
  struct ScaleTable {
    Scale scale;
    size_t offset = 0;
  };
  // Indices of the tables of a layer, -1 where it has none.
  struct Indices {
    int q = -1;
    int q_far = -1;
    int k = -1;
    int near = -1;
    int scale = -1;
  };

  Indices Plan(const ModelSpec& spec, const MixerSpec& mixer);
  int IndexOf(const Rotation& rotation);
  int IndexOf(const Scale& scale);
  void ComputeRotation(const OpTable& ops, Stream& stream, const RotationTable& table,
                       const int64_t* positions, int64_t num_rows, float* out) const;
  // Copies the frequencies of all rotations to the device.
  void UploadFrequencies(Device& device);
  float* At(size_t offset) const { return reinterpret_cast<float*>(memory_.data()) + offset; }
  const float* Table(int index) const;

  std::vector<RotationTable> rotations_;  // all distinct
  std::vector<ScaleTable> scales_;        // all distinct
  std::vector<Indices> layers_;
  DeviceMemory memory_;    // f32
  DeviceMemory inv_freq_;  // f64
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_STEP_POSITION_TABLES_H_
