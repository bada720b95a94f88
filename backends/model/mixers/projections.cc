// Reads and applies the projections around a mixer.
#include "backends/model/mixers/projections.h"

#include "kernels/ops/gemm/linear.h"

namespace longstream {
namespace {

// For a tensor that holds q, k and v head by head. Returns, for each row of the tensor, its place
// in the order that the kernels expect: all of q, then all of k, then all of v. The tensor has at
// most 3 kMaxWidth rows.
std::vector<int32_t> OrderByHead(const MixerSpec& mixer, const std::vector<int32_t>& head_order) {
  const int32_t width = mixer.head_dim;
  std::vector<int32_t> order;
  for (int32_t head = 0; head < mixer.num_heads; ++head) {
    for (int32_t part = 0; part < 3; ++part) {
      for (int32_t d = 0; d < width; ++d) {
        const bool rotates = part < 2 && !head_order.empty();
        const int32_t to = rotates ? head_order[static_cast<size_t>(d)] : d;
        order.push_back((part * mixer.num_heads + head) * width + to);
      }
    }
  }
  return order;
}

// `order` is the HeadOrder of the mixer.
void ReadQkNorms(const NamedTensors& tensors, const MixerSpec& mixer,
                 const std::vector<int32_t>& order, MixerWeights* weights) {
  if (mixer.qk_norm == QkNorm::kNone) return;
  const ProjectionWidths widths(mixer);
  const auto norm = [&](std::string_view name, int64_t all) {
    const int64_t size = mixer.qk_norm == QkNorm::kHead ? mixer.head_dim : all;
    std::vector<WeightPart> parts = tensors.Parts({{name, size, order}}, ".weight");
    if (mixer.qk_norm == QkNorm::kEachHead) parts.front().vector_cols = mixer.head_dim;
    return tensors.source().Vector(parts, tensors.norm_plus());
  };
  weights->q_norm = norm(tensors.names().q_norm, widths.q);
  weights->k_norm = norm(tensors.names().k_norm, widths.k);
}

}  // namespace

std::vector<int32_t> HeadOrder(const MixerSpec& mixer) {
  const int32_t half = mixer.head_dim / 2;
  const int32_t rotated_pairs = mixer.rope.rotated == 0 ? half : mixer.rope.rotated / 2;
  if (!mixer.rotates() || (rotated_pairs == half && !mixer.rope.neighbours)) return {};
  std::vector<int32_t> order;
  for (int32_t i = 0; i < mixer.head_dim; ++i) {
    if (i >= 2 * rotated_pairs) {
      // These elements fill the rest of the first half, then the rest of the second.
      const int32_t pair = i - rotated_pairs;
      order.push_back(pair < half ? pair : i);
    } else if (mixer.rope.neighbours) {
      order.push_back(i / 2 + (i % 2 == 0 ? 0 : half));
    } else {
      order.push_back(i < rotated_pairs ? i : i - rotated_pairs + half);
    }
  }
  return order;
}

void ReadInput(const NamedTensors& tensors, const MixerSpec& mixer, const GateTensor& gate,
               MixerWeights* weights) {
  const TensorNames& names = tensors.names();
  WeightSource& source = tensors.source();
  const int64_t width = tensors.spec().width;
  const ProjectionWidths widths(mixer);
  const std::vector<int32_t> order = HeadOrder(mixer);

  std::vector<NamedRows> qkv = {
      {names.q, widths.q, order}, {names.k, widths.k, order}, {names.v, widths.v}};
  if (names.qkv_by_head) {
    qkv = {{names.q, widths.q + widths.k + widths.v, OrderByHead(mixer, order)}};
  }
  std::vector<WeightPart> in = tensors.Parts(qkv, ".weight");
  std::vector<WeightPart> in_bias = tensors.Parts(qkv, ".bias");
  const WeightPart value = in.back();
  const WeightPart value_bias = in_bias.back();
  const bool value_apart = mixer.position == PositionKind::kChunkedRope;
  if (value_apart) {
    in.pop_back();
    in_bias.pop_back();
  }
  if (!mixer.qkv_bias) {
    for (WeightPart& part : in_bias) part.name.clear();
  }
  if (gate.rows > 0) {
    const std::vector<NamedRows> rows = {{gate.name, gate.rows}};
    in.push_back(tensors.Parts(rows, ".weight").front());
    in_bias.push_back(tensors.Parts(rows, ".bias").front());
    if (!gate.has_bias) in_bias.back().name.clear();
  }
  weights->in = source.Projection(in, width);
  if (mixer.qkv_bias || gate.has_bias) weights->in_bias = source.Vector(in_bias, 0.0f);
  if (value_apart) {
    weights->value = source.Projection({value}, width);
    if (mixer.qkv_bias) weights->value_bias = source.Vector({value_bias}, 0.0f);
  }
  ReadQkNorms(tensors, mixer, order, weights);
}

void ReadOutput(const NamedTensors& tensors, const MixerSpec& mixer, MixerWeights* weights) {
  const std::vector<NamedRows> out = {{tensors.names().out, tensors.spec().width}};
  weights->out = tensors.Projection(out, ProjectionWidths(mixer).out);
  if (mixer.output_bias) weights->out_bias = tensors.Vector(out, ".bias");
}

void RaiseProjectionSizes(const StepLimits& limits, const MixerSpec& mixer,
                          const MixerWeights& weights, StepSizes* sizes) {
  const int64_t mixed = ProjectionWidths(mixer).out;
  StepSizes::Raise(sizes->projected, weights.in.n + weights.value.n);
  StepSizes::Raise(sizes->mixed, mixed);
  StepSizes::Raise(sizes->workspace, LinearWorkspace(limits.max_rows, mixed));
}

//   [q k v gate] = W_in Norm(x) + bias
// With chunked RoPE q and k also see the chunk's embedding, and v does not:
//   [q k] = W_in (Norm(x) + E[p div C]),  v = W_v Norm(x)
Projections Project(ForwardPass& pass, size_t layer) {
  const MixerSpec& mixer = pass.spec.layers[layer];
  const LayerWeights& weights = pass.weights.layers[layer];
  const MixerWeights& projections = weights.mixer;
  const bool value_apart = projections.value.n > 0;
  const int64_t in_cols = projections.in.n;
  const Matrix all = pass.buffers.Projected(pass.num_rows, in_cols + projections.value.n);

  const LinearRows x = {.x = pass.Residual(), .norm = pass.StreamNorm(weights.mixer_norm)};
  LinearRows in = x;
  if (value_apart) {
    in.addend = pass.weights.chunk_embedding;
    in.addend_rows = pass.rows.chunks();
  }
  pass.ops.linear(pass.stream, {.in = {in, projections.in},
                                .bias = projections.in_bias,
                                .num_decode_rows = pass.num_decode_rows,
                                .out = all.Columns(0, in_cols)});
  if (value_apart) {
    pass.ops.linear(pass.stream, {.in = {x, projections.value},
                                  .bias = projections.value_bias,
                                  .num_decode_rows = pass.num_decode_rows,
                                  .out = all.Columns(in_cols, projections.value.n)});
  }

  const ProjectionWidths widths(mixer);
  const int64_t gate_begin = widths.q + widths.k + widths.v;
  Projections out = {all.Columns(0, widths.q),
                     all.Columns(widths.q, widths.k),
                     all.Columns(widths.q + widths.k, widths.v),
                     {}};
  if (all.cols > gate_begin) out.gate = all.Columns(gate_begin, all.cols - gate_begin);
  return out;
}

RopeCacheWriteArgs CacheWriteArgs(const ForwardPass& pass, size_t layer, const Projections& in) {
  const MixerSpec& mixer = pass.spec.layers[layer];
  const MixerWeights& weights = pass.weights.layers[layer].mixer;
  const LayerTables tables = pass.tables.layer(layer);
  const auto head_norm = [&](const float* norm) {
    return pass.NormOf(mixer.qk_norm == QkNorm::kHead ? norm : nullptr, mixer.head_dim);
  };
  return {.batch = pass.rows.layout(),
          .num_heads = mixer.num_heads,
          .num_kv_heads = mixer.num_kv_heads,
          .head_dim = mixer.head_dim,
          .value_dim = mixer.value_dim,
          .q = in.q,
          .k = in.k,
          .v = in.v,
          .q_norm = head_norm(weights.q_norm),
          .k_norm = head_norm(weights.k_norm),
          .rope_q = tables.q,
          .rope_q_far = tables.q_far,
          .rope_k = tables.k,
          .rope_near = tables.near,
          .q_scale = tables.q_scale,
          .q_out = in.q};
}

//   x = x + residual_multiplier * PostNorm(W_o (Norm(mixed) * sigmoid(gate)) + bias)
void ProjectBack(ForwardPass& pass, size_t layer, LinearRows in) {
  // In a parallel block, all rows are kept here: the MLP's rows are already prepared, in a form in
  // which only the library can select rows.
  if (layer + 1 == pass.spec.layers.size() && !pass.spec.parallel) {
    pass.KeepLogitRows({in.x, in.gate});
    in.x.rows = in.gate.rows = pass.num_rows;
    if (pass.num_rows == 0) return;
  }
  const LayerWeights& weights = pass.weights.layers[layer];
  pass.AddBranch({in, weights.mixer.out}, weights.mixer.out_bias, weights.mixer_post_norm);
}

}  // namespace longstream
