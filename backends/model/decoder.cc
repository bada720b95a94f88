// The forward pass: embedding, layers, head.
#include "backends/model/decoder.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace longstream {
namespace {

// A near ring is rebuilt in blocks of so many positions, each with its own rotary table.
constexpr int64_t kRebuildBlock = 256;

}  // namespace

Decoder::Decoder(const ModelSpec& spec, const ModelWeights& weights, const CacheStore& caches,
                 DType ring_type, const OpTable& ops, const Executor& executor, int64_t max_rows,
                 int64_t max_sequences, Device& device)
    : spec_(spec),
      weights_(weights),
      caches_(caches),
      ops_(ops),
      executor_(executor),
      tables_(spec, max_rows, device),
      buffers_(spec, weights, ring_type, max_rows, max_sequences, device),
      rebuild_arguments_(device) {
  int32_t head_dim = 0;
  for (const MixerSpec& mixer : spec.layers) {
    if (mixer.rerope()) head_dim = std::max(head_dim, mixer.head_dim);
  }
  if (head_dim == 0) return;
  rebuild_positions_.resize(kRebuildBlock);
  rebuild_rope_ = DeviceMemory(
      device, static_cast<size_t>(kRebuildBlock * head_dim) * sizeof(float), "near rings");
}

//   x = embedding_multiplier * embed[token], normed where the model has a norm there
//   for each layer:  x = x + PostNorm(Mixer_l(Norm(x)));  x = x + PostNorm(MLP_l(Norm(x)))
// with each norm where the model has it. A parallel block and a gated attention unit are
//   x = x + Mixer_l(Norm(x)) + MLP_l(Norm(x)),    x = Norm(x + Mixer_l(x)).
OpStatus Decoder::Forward(const StepRows& rows, const Wanted& wanted, const int32_t* sampled) {
  Stream stream = buffers_.MakeStream(executor_);
  wanted_ = wanted;
  num_rows_ = rows.num_rows();
  num_decode_rows_ = rows.num_decode_rows();
  ops_.embed(stream, {.table = weights_.embedding,
                      .ids = rows.ids(),
                      .multiplier = spec_.embedding_multiplier,
                      .out = buffers_.Residual(num_rows_),
                      .sampled = sampled});
  if (weights_.embedding_norm.weight != nullptr) {
    NormStream(stream, StreamNorm(weights_.embedding_norm));
  }
  tables_.Compute(ops_, stream, rows.positions(), num_rows_);
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const LayerWeights& weights = weights_.layers[layer];
    // The MLP of a parallel block reads x before the mixer changes it.
    LinearInput hidden;
    if (spec_.parallel) {
      hidden = MlpHidden(stream, layer, StreamNorm(weights.mixer_norm));
    }
    if (spec_.layers[layer].recurrent()) {
      Recur(stream, rows, layer);
    } else {
      Attend(stream, rows, layer);
    }
    if (num_rows_ == 0) break;  // no row needs logits
    if (spec_.block == BlockKind::kGau) {
      NormStream(stream, StreamNorm(weights.stream_norm));
      continue;
    }
    if (!spec_.parallel) {
      hidden = MlpHidden(stream, layer, StreamNorm(weights.mlp_norm));
    }
    MlpBack(stream, layer, hidden);
  }
  KeepWanted(stream, {});
  return stream.status;
}

void Decoder::KeepWanted(Stream& stream, std::initializer_list<Matrix> matrices) {
  if (num_rows_ == wanted_.num_rows) return;  // all rows are wanted, or the others are gone
  const auto gather = [&](const Matrix& x) {
    ops_.gather_rows(stream, {.x = x, .rows = wanted_.rows, .num_rows = wanted_.num_rows});
  };
  if (wanted_.num_rows > 0) {
    gather(buffers_.Residual(num_rows_));
    for (const Matrix& matrix : matrices) {
      if (matrix.data != nullptr) gather(matrix);
    }
  }
  num_rows_ = wanted_.num_rows;
  num_decode_rows_ = wanted_.num_decode_rows;
}

void Decoder::NormStream(Stream& stream, const Norm& norm) {
  const Matrix x = buffers_.Residual(num_rows_);
  ops_.norm_rows(stream, {.in = x, .norm = norm, .out = x});
}

//   hidden = act(W_gate h) * (W_up h), or act(W_gate h) without a gate;  h = Norm(x)
// with a bias on each product where the model has them.
LinearInput Decoder::MlpHidden(Stream& stream, size_t layer, const Norm& norm) {
  const LayerWeights& weights = weights_.layers[layer];
  const LinearRows x = {.x = buffers_.Residual(num_rows_), .norm = norm};
  return LinearFor(weights.mlp_down, num_rows_, buffers_.Hidden(), ops_.linear, stream,
                   {.in = {x, weights.mlp_gate},
                    .bias = weights.mlp_gate_bias,
                    .activation = spec_.activation,
                    .up = weights.mlp_up,
                    .up_bias = weights.mlp_up_bias,
                    .num_decode_rows = num_decode_rows_,
                    .out = {}});
}

//   x = x + residual_multiplier * PostNorm(W_down hidden)
void Decoder::MlpBack(Stream& stream, size_t layer, const LinearInput& hidden) {
  const LayerWeights& weights = weights_.layers[layer];
  AddBranch(stream, hidden, weights.mlp_down_bias, weights.mlp_post_norm);
}

//   [q k v gate] = W_in Norm(x) + bias
// With chunked RoPE q and k also see the chunk's embedding, and v does not:
//   [q k] = W_in (Norm(x) + E[p div C]),  v = W_v Norm(x)
Decoder::Projections Decoder::Project(Stream& stream, const StepRows& rows, size_t layer) {
  const MixerSpec& mixer = spec_.layers[layer];
  const LayerWeights& weights = weights_.layers[layer];
  const bool chunked = mixer.position == PositionKind::kChunkedRope;
  const int64_t in_cols = weights.mixer_in.n;
  const Matrix all = buffers_.Projected(num_rows_, in_cols + weights.value.n);

  const LinearRows x = {.x = buffers_.Residual(num_rows_), .norm = StreamNorm(weights.mixer_norm)};
  LinearRows in = x;
  if (chunked) {
    in.addend = weights_.chunk_embedding;
    in.addend_rows = rows.chunks();
  }
  ops_.linear(stream, {.in = {in, weights.mixer_in},
                       .bias = weights.mixer_in_bias,
                       .num_decode_rows = num_decode_rows_,
                       .out = all.Columns(0, in_cols)});
  if (chunked) {
    ops_.linear(stream, {.in = {x, weights.value},
                         .bias = weights.value_bias,
                         .num_decode_rows = num_decode_rows_,
                         .out = all.Columns(in_cols, weights.value.n)});
  }

  const int64_t q_cols = int64_t{mixer.num_heads} * mixer.head_dim;
  const int64_t k_cols = int64_t{mixer.num_kv_heads} * mixer.head_dim;
  const int64_t v_cols = int64_t{mixer.num_kv_heads} * mixer.value_dim;
  const int64_t gate_begin = q_cols + k_cols + v_cols;
  Projections out = {all.Columns(0, q_cols),
                     all.Columns(q_cols, k_cols),
                     all.Columns(q_cols + k_cols, v_cols),
                     {}};
  if (all.cols > gate_begin) out.gate = all.Columns(gate_begin, all.cols - gate_begin);
  return out;
}

//   x = x + residual_multiplier * (W in + bias), or, with a norm after the branch,
//   x = x + residual_multiplier * PostNorm(W in + bias)
void Decoder::AddBranch(Stream& stream, const LinearInput& in, const float* bias,
                        const NormWeights& post_norm) {
  const Matrix x = buffers_.Residual(num_rows_);
  if (post_norm.weight == nullptr) {
    ops_.linear(stream, {.in = in,
                         .bias = bias,
                         .scale = spec_.residual_multiplier,
                         .accumulate = true,
                         .num_decode_rows = num_decode_rows_,
                         .out = x});
    return;
  }
  const Matrix branch = buffers_.Branch(num_rows_);
  ops_.linear(stream, {.in = in, .bias = bias, .num_decode_rows = num_decode_rows_, .out = branch});
  ops_.norm_rows(stream, {.in = branch,
                          .norm = StreamNorm(post_norm),
                          .scale = spec_.residual_multiplier,
                          .accumulate = true,
                          .out = x});
}

//   x = x + residual_multiplier * PostNorm(W_o (Norm(mixed) * sigmoid(gate)) + bias)
void Decoder::ProjectBack(Stream& stream, Matrix mixed, Matrix gate, size_t layer) {
  const MixerSpec& mixer = spec_.layers[layer];
  // A parallel block also holds the MLP's prepared rows, which only the library can read.
  if (layer + 1 == spec_.layers.size() && !spec_.parallel) {
    KeepWanted(stream, {mixed, mixer.output_gate ? gate : Matrix{}});
    mixed.rows = gate.rows = num_rows_;
    if (num_rows_ == 0) return;
  }
  const LayerWeights& weights = weights_.layers[layer];
  LinearRows in = {.x = mixed};
  if (mixer.output_norm) in.norm = NormOf(weights.output_norm, mixed.cols);
  if (mixer.output_gate) in.gate = gate;
  in.silu_gate = spec_.block == BlockKind::kGau;
  AddBranch(stream, {in, weights.mixer_out}, weights.mixer_out_bias, weights.mixer_post_norm);
}

//   logits = logit_multiplier * W_head Norm(x), softly capped where the model has a cap
// All rows are projected as decode rows, so that a token's logits do not depend on which other rows
// of its step need logits.
OpStatus Decoder::Logits(int64_t first, int64_t num_rows, float* logits) {
  Stream stream = buffers_.MakeStream(executor_);
  const Matrix out = {logits, DType::kF32, num_rows, spec_.vocabulary, spec_.vocabulary};
  const LinearRows x = {.x = buffers_.Residual(num_rows_).Rows(first, num_rows),
                        .norm = StreamNorm(weights_.final_norm)};
  ops_.linear(stream, {.in = {x, weights_.head},
                       .scale = spec_.logit_multiplier,
                       .num_decode_rows = num_rows,
                       .out = out});
  if (spec_.logit_softcap > 0.0f) {
    ops_.soft_cap(stream, {.x = out, .cap = spec_.logit_softcap});
  }
  return stream.status;
}

void Decoder::PrepareRebuild(size_t num_pages) {
  if (rebuild_positions_.empty()) return;
  rebuild_arguments_.Reserve(TransferBytes(rebuild_positions_.size(), sizeof(int64_t)) +
                             TransferBytes(num_pages, sizeof(int32_t)));
}

OpStatus Decoder::RebuildNearRings(SequenceCache& cache) {
  if (!cache.near_rings_stale()) return OpStatus::kOk;
  Stream stream = buffers_.MakeStream(executor_);
  auto* rope = reinterpret_cast<float*>(rebuild_rope_.data());
  const std::span<const int32_t> page_table = cache.page_table();
  PrepareRebuild(page_table.size());
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    if (!spec_.layers[layer].rerope()) continue;
    const RingCache ring = caches_.slots.near_ring(layer);
    for (int64_t begin = std::max<int64_t>(cache.position() - ring.slots, 0);
         begin < cache.position(); begin += kRebuildBlock) {
      const int64_t end = std::min(begin + kRebuildBlock, cache.position());
      std::iota(rebuild_positions_.begin(), rebuild_positions_.end(), begin);
      rebuild_arguments_.Begin();
      const int64_t* positions = rebuild_arguments_.Add(rebuild_positions_);
      const int32_t* pages = rebuild_arguments_.Add(page_table);
      rebuild_arguments_.Upload();
      tables_.ComputeNear(ops_, stream, layer, positions, end - begin, rope);
      ops_.ring_rebuild(stream, {.cache = caches_.pages.layer(layer),
                                 .page_table = pages,
                                 .ring = ring,
                                 .slot = cache.slot(),
                                 .begin = begin,
                                 .end = end,
                                 .rope = rope});
      stream.Fail(caches_.device.Synchronize());
    }
  }
  if (stream.ok()) cache.NearRingsRebuilt();
  return stream.status;
}

}  // namespace longstream
