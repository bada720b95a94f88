// Sizes of a step's activations: the largest that any layer needs.
#include "backends/model/step_buffers.h"

#include <algorithm>
#include <initializer_list>

#include "backends/caches/cache_layout.h"
#include "kernels/ops/op_table.h"

namespace longstream {
namespace {

// Columns of each buffer, and bytes of workspace.
struct Widths {
  int64_t projected = 0;
  int64_t far_queries = 0;
  int64_t keys = 0;
  int64_t values = 0;
  int64_t mixed = 0;
  int64_t branch = 0;
  size_t workspace = 0;
};

Widths Largest(const ModelSpec& spec, const ModelWeights& weights, int64_t max_rows,
               int64_t max_sequences) {
  Widths widths;
  const auto raise = [](auto& value, auto candidate) { value = std::max(value, candidate); };
  raise(widths.workspace, LinearWorkspace(max_rows, spec.width, spec.mlp_width));
  const int64_t decode_rows = std::min(max_rows, max_sequences);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const MixerSpec& mixer = spec.layers[i];
    const LayerWeights& layer = weights.layers[i];
    const int64_t mixed = int64_t{mixer.num_heads} * mixer.value_dim;
    if (layer.mixer_post_norm.weight != nullptr || layer.mlp_post_norm.weight != nullptr) {
      widths.branch = spec.width;
    }
    // A gated attention unit makes queries and keys of one projection.
    const int64_t keys = int64_t{mixer.num_kv_heads} * mixer.head_dim;
    raise(widths.projected,
          layer.mixer_in.n + (spec.block == BlockKind::kGau ? keys : 0) + layer.value.n);
    raise(widths.mixed, mixed);
    raise(widths.workspace, LinearWorkspace(max_rows, mixed));
    if (mixer.recurrent()) {
      raise(widths.workspace,
            LinearRecurrenceWorkspace(max_rows, mixer.num_heads, kPrefillGrid, mixer.head_dim));
      continue;
    }
    raise(widths.keys, keys);
    raise(widths.values, int64_t{mixer.num_kv_heads} * mixer.value_dim);
    if (mixer.rerope()) raise(widths.far_queries, int64_t{mixer.num_heads} * mixer.head_dim);
    const int64_t out_heads = int64_t{mixer.num_heads} * mixer.value_slices();
    const int64_t visible = mixer.kind == MixerKind::kWindow ? mixer.window : spec.context_limit;
    raise(widths.workspace,
          AttentionWorkspace(decode_rows, out_heads, mixer.head_dim, visible - 1));
  }
  return widths;
}

}  // namespace

StepBuffers::StepBuffers(const ModelSpec& spec, const ModelWeights& weights, DType ring_type,
                         int64_t max_rows, int64_t max_sequences, Device& device)
    : width_(spec.width), ring_type_(ring_type), device_(device) {
  const Widths widths = Largest(spec, weights, max_rows, max_sequences);
  struct Part {
    std::byte** begin;
    size_t bytes;
  };
  const auto rows_of = [&](int64_t cols, DType type = DType::kF32) {
    return static_cast<size_t>(max_rows * cols) * SizeOf(type);
  };
  const std::initializer_list<Part> parts = {
      {&residual_, rows_of(spec.width)},
      {&projected_, rows_of(widths.projected)},
      {&far_queries_, rows_of(widths.far_queries)},
      {&keys_, rows_of(widths.keys, ring_type)},
      {&values_, rows_of(widths.values, ring_type)},
      {&mixed_, rows_of(widths.mixed)},
      {&hidden_, PreparedBytes(max_rows, spec.mlp_width)},
      {&branch_, rows_of(widths.branch)},
      {&workspace_, widths.workspace},
  };
  const auto padded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  size_t size = 0;
  for (const Part& part : parts) size += padded(part.bytes);
  memory_ = DeviceMemory(device, size, "activations");
  size_t offset = 0;
  for (const Part& part : parts) {
    *part.begin = memory_.data() + offset;
    offset += padded(part.bytes);
  }
  workspace_bytes_ = padded(widths.workspace);
}

}  // namespace longstream
