// Reference linear recurrence, token by token (kernels/ops/recurrence/linear_recurrence.h).
#include "kernels/ops/recurrence/linear_recurrence.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

// The memory of one layer for one sequence.
struct Memory {
  float* state;   // [H, Dk, Dv]
  float* keys;    // [grid, H_kv, Dk]
  float* values;  // [grid, H_kv, Dv]
  float* gates;   // [grid, H, Dk]
};

float* At(std::byte* base, const RecurrentCache& cache, int32_t slot) {
  return base == nullptr ? nullptr : reinterpret_cast<float*>(base + slot * cache.slot_stride);
}

// ln sigmoid(x), accurate also where sigmoid(x) is near 0 or 1.
double LogSigmoid(double x) { return std::fmin(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }

// Stores key, value and log-gates of step row t as row r of the block.
void Remember(const LinearRecurrenceArgs& args, const Memory& memory, int64_t t, int64_t r) {
  const RecurrentCache& cache = args.cache;
  const int64_t key_row = int64_t{cache.num_kv_heads} * cache.key_dim;
  const int64_t value_row = int64_t{cache.num_kv_heads} * cache.value_dim;
  const int64_t gate_row = int64_t{cache.num_heads} * cache.key_dim;
  std::memcpy(memory.keys + r * key_row, args.k.f32_row(t),
              static_cast<size_t>(key_row) * sizeof(float));
  std::memcpy(memory.values + r * value_row, args.v.f32_row(t),
              static_cast<size_t>(value_row) * sizeof(float));
  if (args.log_decay != nullptr) return;
  for (int64_t i = 0; i < gate_row; ++i) {
    memory.gates[r * gate_row + i] = static_cast<float>(LogSigmoid(args.gate.f32_row(t)[i]));
  }
}

// S <- diag(f_r) S + k_r^T v_r for one head and row r of the block.
void Advance(const LinearRecurrenceArgs& args, const Memory& memory, int64_t head, int64_t r,
             std::vector<double>& state) {
  const RecurrentCache& cache = args.cache;
  const int64_t kv_head = head / (cache.num_heads / cache.num_kv_heads);
  const float* k = memory.keys + (r * cache.num_kv_heads + kv_head) * cache.key_dim;
  const float* v = memory.values + (r * cache.num_kv_heads + kv_head) * cache.value_dim;
  for (int64_t i = 0; i < cache.key_dim; ++i) {
    const double log_f = args.log_decay != nullptr
                             ? args.log_decay[head]
                             : memory.gates[(r * cache.num_heads + head) * cache.key_dim + i];
    const double f = std::exp(log_f);
    for (int64_t j = 0; j < cache.value_dim; ++j) {
      double& s = state[static_cast<size_t>(i * cache.value_dim + j)];
      s = f * s + static_cast<double>(k[i]) * v[j];
    }
  }
}

// out = scale * q S for one head of step row t.
void Read(const LinearRecurrenceArgs& args, int64_t head, int64_t t,
          const std::vector<double>& state) {
  const RecurrentCache& cache = args.cache;
  const float* q = args.q.f32_row(t) + head * cache.key_dim;
  float* out = args.out.f32_row(t) + head * cache.value_dim;
  for (int64_t j = 0; j < cache.value_dim; ++j) {
    double sum = 0.0;
    for (int64_t i = 0; i < cache.key_dim; ++i) {
      sum += q[i] * state[static_cast<size_t>(i * cache.value_dim + j)];
    }
    out[j] = static_cast<float>(args.scale * sum);
  }
}

// Computes the rows of a step that lie in one block. They are rows [begin, end) of the block; row t
// of the step is row `begin`.
void AdvanceInBlock(const LinearRecurrenceArgs& args, const Memory& memory, int64_t begin,
                    int64_t end, int64_t t) {
  const RecurrentCache& cache = args.cache;
  const int64_t size = int64_t{cache.key_dim} * cache.value_dim;
  for (int64_t r = begin; r < end; ++r) Remember(args, memory, t + (r - begin), r);
  for (int64_t h = 0; h < cache.num_heads; ++h) {
    float* stored = memory.state + h * size;
    std::vector<double> state(stored, stored + size);
    for (int64_t r = 0; r < end; ++r) {
      Advance(args, memory, h, r, state);
      if (r >= begin) Read(args, h, t + (r - begin), state);
    }
    if (end < cache.grid) continue;
    for (int64_t i = 0; i < size; ++i) {
      stored[i] = static_cast<float>(state[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace

void LinearRecurrence(Stream& stream, const LinearRecurrenceArgs& args) {
  if (!stream.ok()) return;
  const RecurrentCache& cache = args.cache;
  for (int32_t s = 0; s < args.batch.num_sequences; ++s) {
    const SequenceRows& sequence = args.batch.sequences[s];
    const Memory memory = {
        At(cache.state, cache, sequence.slot), At(cache.keys, cache, sequence.slot),
        At(cache.values, cache, sequence.slot), At(cache.gates, cache, sequence.slot)};
    for (int64_t i = 0; i < sequence.num_rows;) {
      const int64_t begin = (sequence.first_position + i) % cache.grid;
      const int64_t left = sequence.num_rows - i;
      const int64_t count = left < cache.grid - begin ? left : cache.grid - begin;
      AdvanceInBlock(args, memory, begin, begin + count, sequence.first_row + i);
      i += count;
    }
  }
}

}  // namespace longstream::reference
