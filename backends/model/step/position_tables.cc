// Which rotations and scales a model's layers need, and their values for a step.
#include "backends/model/step/position_tables.h"

#include <cmath>

#include "backends/errors/device_failure.h"

namespace longstream {
namespace {

LogitScaleArgs ScaleArgs(LogitScaleKind kind, double base) {
  LogitScaleArgs args;
  args.base = base;
  switch (kind) {
    case LogitScaleKind::kLogNAlways:  // ln(max(n, 16)) / ln(N), n = p + 1
      args.minimum = 16;
      break;
    case LogitScaleKind::kLogNExtrapolate:  // max(1, ln(n) / ln(N))
      args.floor = 1;
      break;
    case LogitScaleKind::kHype:  // ln(p + a) / ln(a)
      args.offset = base;
      break;
    case LogitScaleKind::kNone:
      break;
  }
  return args;
}

}  // namespace

PositionTables::PositionTables(const ModelSpec& spec, int64_t max_rows, Device& device) {
  for (const MixerSpec& mixer : spec.layers) layers_.push_back(Plan(spec, mixer));
  size_t size = 0;
  for (RotationTable& table : rotations_) {
    table.offset = size;
    size += static_cast<size_t>(max_rows * table.rotation.head_dim);
  }
  for (ScaleTable& table : scales_) {
    table.offset = size;
    size += static_cast<size_t>(max_rows);
  }
  memory_ = DeviceMemory(device, size * sizeof(float), "tables of positions");
  UploadFrequencies(device);
}

void PositionTables::UploadFrequencies(Device& device) {
  std::vector<double> frequencies;
  for (RotationTable& table : rotations_) {
    table.inv_freq = frequencies.size();
    const RopeSpec& rope = table.rotation.rope;
    const int32_t head_dim = table.rotation.head_dim;
    const int32_t rotated = rope.rotated == 0 ? head_dim : rope.rotated;
    for (int32_t i = 0; i < head_dim / 2; ++i) {
      if (i >= rotated / 2) {
        frequencies.push_back(0.0);  // the pair does not rotate
      } else if (rope.inv_freq.empty()) {
        frequencies.push_back(std::pow(rope.theta, -2.0 * i / rotated));
      } else {
        frequencies.push_back(rope.inv_freq[static_cast<size_t>(i)]);
      }
    }
  }
  if (frequencies.empty()) return;
  const size_t size = frequencies.size() * sizeof(double);
  inv_freq_ = DeviceMemory(device, size, "rotary frequencies");
  device.Upload(inv_freq_.data(), frequencies.data(), size);
  RequireDone(device.Synchronize(), "rotary frequencies");
}

PositionTables::Indices PositionTables::Plan(const ModelSpec& spec, const MixerSpec& mixer) {
  Indices indices;
  const float m = mixer.rope.magnitude;
  const auto rotation = [&](double scale, double offset, float magnitude, int64_t modulo = 0) {
    return IndexOf(Rotation{mixer.rope, mixer.head_dim, scale, offset, modulo, magnitude});
  };
  // A score must contain the magnitude m twice. Usually q and k contain it once each. A key that is
  // not rotated does not contain it, so the query contains it twice; a near key has it from the key
  // in the pages.
  const double w = mixer.rerope_window;
  const double k = mixer.leaky_factor;
  switch (mixer.position) {
    case PositionKind::kNone:
    case PositionKind::kAlibi:
      break;
    case PositionKind::kRope:
      indices.q = indices.k = rotation(1, 0, m);
      break;
    case PositionKind::kChunkedRope:
      indices.q = indices.k = rotation(1, 0, m, spec.chunk_size);
      break;
    case PositionKind::kRerope:
      // Far keys: the distance is w whatever the positions are, so the pages hold keys without
      // rotation.
      indices.q = indices.near = rotation(1, 0, m);
      indices.q_far = rotation(0, w, m * m);
      break;
    case PositionKind::kLeakyRerope:
      // Far keys: the distance is (p - j) / k + w - w / k. Near keys: it is p - j.
      indices.q = rotation(1, 0, m);
      indices.q_far = rotation(1 / k, w - w / k, m);
      indices.k = rotation(1 / k, 0, m);
      indices.near = rotation(1 - 1 / k, 0, 1);
      break;
  }
  if (mixer.logit_scale != LogitScaleKind::kNone) {
    indices.scale = IndexOf(Scale{mixer.logit_scale, mixer.logit_scale_base});
  }
  return indices;
}

int PositionTables::IndexOf(const Rotation& rotation) {
  for (size_t i = 0; i < rotations_.size(); ++i) {
    if (rotations_[i].rotation == rotation) return static_cast<int>(i);
  }
  rotations_.push_back({rotation});
  return static_cast<int>(rotations_.size()) - 1;
}

int PositionTables::IndexOf(const Scale& scale) {
  for (size_t i = 0; i < scales_.size(); ++i) {
    if (scales_[i].scale == scale) return static_cast<int>(i);
  }
  scales_.push_back({scale, 0});
  return static_cast<int>(scales_.size()) - 1;
}

void PositionTables::Compute(const OpTable& ops, Stream& stream, const int64_t* positions,
                             int64_t num_rows) {
  for (const RotationTable& table : rotations_) {
    ComputeRotation(ops, stream, table, positions, num_rows, At(table.offset));
  }
  for (const ScaleTable& table : scales_) {
    LogitScaleArgs args = ScaleArgs(table.scale.kind, table.scale.base);
    args.positions = positions;
    args.num_rows = num_rows;
    args.out = At(table.offset);
    ops.logit_scale(stream, args);
  }
}

void PositionTables::ComputeNear(const OpTable& ops, Stream& stream, size_t layer,
                                 const int64_t* positions, int64_t num_rows, float* out) const {
  const RotationTable& table = rotations_[static_cast<size_t>(layers_[layer].near)];
  ComputeRotation(ops, stream, table, positions, num_rows, out);
}

void PositionTables::ComputeRotation(const OpTable& ops, Stream& stream, const RotationTable& table,
                                     const int64_t* positions, int64_t num_rows, float* out) const {
  const Rotation& rotation = table.rotation;
  ops.rope_table(stream,
                 {.positions = positions,
                  .num_rows = num_rows,
                  .inv_freq = reinterpret_cast<const double*>(inv_freq_.data()) + table.inv_freq,
                  .head_dim = rotation.head_dim,
                  .position_scale = rotation.scale,
                  .position_offset = rotation.offset,
                  .modulo = rotation.modulo,
                  .magnitude = rotation.magnitude,
                  .table = out});
}

const float* PositionTables::Table(int index) const {
  return index < 0 ? nullptr : At(rotations_[static_cast<size_t>(index)].offset);
}

LayerTables PositionTables::layer(size_t layer) const {
  const Indices& indices = layers_[layer];
  const float* scale =
      indices.scale < 0 ? nullptr : At(scales_[static_cast<size_t>(indices.scale)].offset);
  return {Table(indices.q), Table(indices.q_far), Table(indices.k), Table(indices.near), scale};
}

}  // namespace longstream
