// Causal softmax attention over all tokens of a sequence, kept in pages.
//
//   s_j       = scale * q[t, h] . K[j, h / (H / H_kv)] - m_h (p(t) - j),   0 <= j <= p(t)
//   out[t, h] = sum_j softmax_j(s_j) V[j, h / (H / H_kv)]
//
// Values are Dv = value_slices * D wide (PagedCache). m_h: the slope of ALiBi (Press et al., Train
// Short, Test Long), 0 where none are given. With a softcap c (Gemma 2), c tanh(x / c) takes the
// place of x = scale * q . K.
//
// Keys are visited in fixed blocks of absolute positions and merged by log-sum-exp in that order: a
// row's bits depend on its own history alone.
//
// Products are summed in f32. Over bf16 keys and values a library may round what it multiplies them
// with to bf16 as well (nearest, ties to even): either the queries and the softmax's weights of
// prefill rows, while decode rows keep at least 17 bits of both; or the weights of all rows, so
// that prefill and decode see the same ones, and at least 17 bits of the queries are kept.
//
// Over int8 pages a library may round queries times `scale` to 32639ths of the largest of their
// head and, of a block of 64 keys at most, weights times the scales of their values to 32767ths or
// 65535ths of the largest of them, decode and prefill rows alike; products are summed exactly then.
// Weights times scales that are all below 2^-100 may count as zeros.
#ifndef LONGSTREAM_KERNELS_OPS_ATTENTION_PAGED_ATTENTION_H_
#define LONGSTREAM_KERNELS_OPS_ATTENTION_PAGED_ATTENTION_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

// The widest head D that attention serves, over pages, rings and both; a value may have any number
// of slices of that width. It bounds the scratch that
// an implementation keeps on chip: about 1 MiB of a CPU thread's stack.
inline constexpr int32_t kMaxHeadDim = 256;

// The step's own keys and values are already in the pages (RopeCacheWrite).
// Workspace: AttentionWorkspace.
struct PagedAttentionArgs {
  BatchLayout batch;
  int32_t num_heads = 0;  // H, a multiple of cache.num_kv_heads
  float scale = 1.0f;     // > 0: 1 / sqrt(D)
  Matrix q;               // [T, H * D]
  PagedCache cache;
  const float* alibi_slopes = nullptr;  // [H] m, of scores as they are after `scale` and softcap
  float softcap = 0.0f;                 // c; 0: none
  int64_t max_position = 0;             // at least the largest position in the batch
  Matrix out;                           // [T, H * Dv]
};
using PagedAttentionFunction = void (*)(Stream& stream, const PagedAttentionArgs& args);

// A decode row is cut into parts, one task each, whose results are merged in order. How long they
// are is a library's own function of the row's position: at least kMinAttentionSplit tokens, so
// that the merge costs little, and at most kMaxAttentionSplits parts, so that the workspace is
// bounded. A device with more processors than K/V heads cuts finer than one with a few threads.
inline constexpr int64_t kMinAttentionSplit = 128;
inline constexpr int64_t kMaxAttentionSplits = 32;

// No library cuts a row up to `max_position` into more parts.
constexpr int64_t AttentionSplits(int64_t max_position) {
  const int64_t splits = max_position / kMinAttentionSplit + 1;
  return splits < kMaxAttentionSplits ? splits : kMaxAttentionSplits;
}

// Tokens of a part on a CPU, where rows are cut at absolute multiples of AttentionSplit(p): few
// enough that one row of some thousand tokens gives every thread several parts of all its K/V
// heads, which lie side by side in a page.
inline constexpr int64_t kAttentionSplit = 512;

constexpr int64_t AttentionSplit(int64_t position) {
  int64_t split = kAttentionSplit;
  while (position / split >= kMaxAttentionSplits) split *= 2;
  return split;
}

// Workspace in bytes for decode rows of H heads of width D, none at a position > max_position: each
// split's weighted sum of values, its largest score and its sum of weights. Where values have
// slices, `heads` is H * value_slices. Prefill rows need none.
constexpr size_t AttentionWorkspace(int64_t decode_rows, int64_t heads, int64_t head_dim,
                                    int64_t max_position) {
  return static_cast<size_t>(decode_rows * heads * AttentionSplits(max_position) * (head_dim + 2)) *
         sizeof(float);
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ATTENTION_PAGED_ATTENTION_H_
