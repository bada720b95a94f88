// Norm, rotation and cache write (kernels/ops/cache/rope_cache_write.h).
#include "kernels/ops/cache/rope_cache_write.h"

#include "kernels/cpu/cache/rotation.h"
#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/int8_rows.h"
#include "kernels/ops/attention/attention.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of rows of a task. A task has several rows, because one row costs less than waking a
// thread.
constexpr int64_t kTaskRows = 4;

HeadTransform Normalised(const Norm& norm, const float* x, int64_t dim) {
  HeadTransform transform;
  if (norm.enabled()) {
    transform.norm_weight = norm.weight;
    transform.inverse_rms = InverseRms(x, dim, norm.eps);
  }
  return transform;
}

const float* RopeRow(const float* table, int64_t t, int64_t dim) {
  return table == nullptr ? nullptr : table + t * dim;
}

void WriteQueries(const RopeCacheWriteArgs& args, int64_t t) {
  const int64_t dim = args.head_dim;
  for (int64_t h = 0; h < args.num_heads; ++h) {
    const float* q = args.q.f32_row(t) + h * dim;
    HeadTransform transform = Normalised(args.q_norm, q, dim);
    if (args.q_scale != nullptr) transform.scale = args.q_scale[t];
    // The far query comes first, because q_out may be q.
    if (args.q_far_out.data != nullptr) {
      transform.rope = RopeRow(args.rope_q_far, t, dim);
      TransformHead(transform, dim, q, args.q_far_out.f32_row(t) + h * dim);
    }
    transform.rope = RopeRow(args.rope_q, t, dim);
    TransformHead(transform, dim, q, args.q_out.f32_row(t) + h * dim);
  }
}

template <typename T>
T* RowOf(const Matrix& matrix, int64_t t) {
  return static_cast<T*>(matrix.data) + t * matrix.stride;
}

// The place of row t in the pages, which is the same for all heads: the index of its page, and its
// slot there.
struct PageSlot {
  int64_t page;
  int64_t slot;
};

PageSlot PageSlotOf(const RopeCacheWriteArgs& args, int64_t t) {
  const SequenceRows& sequence = args.batch.sequences[args.batch.row_sequence[t]];
  const int64_t position = args.batch.positions[t];
  const int32_t* pages = args.batch.page_tables + sequence.page_offset;
  return {pages[position / args.paged.page_tokens], position % args.paged.page_tokens};
}

// Where the key and the value of row t go for head 0. The next head's begin `stride` elements
// further on.
template <typename T>
struct Destination {
  T* keys;
  T* values;  // nullptr: not written
  int64_t stride;
};

template <typename T>
Destination<T> DestinationOf(const RopeCacheWriteArgs& args, int64_t t) {
  const PagedCache& cache = args.paged;
  if (cache.keys == nullptr) {
    T* values = args.v_out.data == nullptr ? nullptr : RowOf<T>(args.v_out, t);
    return {RowOf<T>(args.k_out, t), values, args.head_dim};
  }
  const PageSlot at = PageSlotOf(args, t);
  const int64_t head_stride = int64_t{cache.page_tokens} * cache.head_dim;
  const auto offset = [&](int64_t num_heads) {
    return at.page * num_heads * head_stride + at.slot * cache.head_dim;
  };
  return {static_cast<T*>(cache.keys) + offset(cache.num_kv_heads),
          static_cast<T*>(cache.values) + offset(cache.num_value_heads()), head_stride};
}

template <typename T>
void WriteKeysAndValues(const RopeCacheWriteArgs& args, int64_t t) {
  const int64_t dim = args.head_dim;
  const Destination<T> to = DestinationOf<T>(args, t);
  for (int64_t h = 0; h < args.num_kv_heads; ++h) {
    const float* k = args.k.f32_row(t) + h * dim;
    T* stored = to.keys + h * to.stride;
    HeadTransform transform = Normalised(args.k_norm, k, dim);
    transform.rope = RopeRow(args.rope_k, t, dim);
    TransformHead(transform, dim, k, stored);
    if (args.near_out.data != nullptr) {
      HeadTransform rotation;
      rotation.rope = RopeRow(args.rope_near, t, dim);
      TransformHead(rotation, dim, stored, RowOf<T>(args.near_out, t) + h * dim);
    }
  }
  if (to.values == nullptr) return;
  // Rows of the step hold the slices of a value side by side; pages hold each slice as a head.
  const bool paged = args.paged.keys != nullptr;
  const int64_t width = int64_t{args.num_kv_heads} * args.value_dim;
  const int64_t part = paged ? dim : width;
  for (int64_t first = 0, head = 0; first < width; first += part, ++head) {
    TransformHead({}, part, args.v.f32_row(t) + first, to.values + head * to.stride);
  }
}

// Row t of head h in int8 pages.
struct Int8Row {
  int8_t* numbers;
  BF16* scale;
};

Int8Row Int8RowOf(const PagedCache& cache, void* store, int64_t num_heads, const PageSlot& at,
                  int64_t h) {
  const int64_t head =
      (at.page * num_heads + h) * PagedHeadBytes(cache.type, cache.page_tokens, cache.head_dim);
  int8_t* numbers = static_cast<int8_t*>(store) + head;
  auto* scales = reinterpret_cast<BF16*>(numbers + int64_t{cache.page_tokens} * cache.head_dim);
  return {numbers + at.slot * cache.head_dim, scales + at.slot};
}

void WriteInt8Pages(const RopeCacheWriteArgs& args, int64_t t) {
  const int64_t dim = args.head_dim;
  const PageSlot at = PageSlotOf(args, t);
  const int64_t num_value_heads = args.paged.num_value_heads();
  alignas(64) float row[kMaxHeadDim];
  for (int64_t h = 0; h < args.num_kv_heads; ++h) {
    const float* k = args.k.f32_row(t) + h * dim;
    HeadTransform transform = Normalised(args.k_norm, k, dim);
    transform.rope = RopeRow(args.rope_k, t, dim);
    TransformHead(transform, dim, k, row);
    const Int8Row key = Int8RowOf(args.paged, args.paged.keys, args.num_kv_heads, at, h);
    StoreInt8Row(row, dim, key.numbers, key.scale);
    if (args.near_out.data != nullptr) {
      LoadInt8Row(key.numbers, *key.scale, dim, row);
      HeadTransform rotation;
      rotation.rope = RopeRow(args.rope_near, t, dim);
      TransformHead(rotation, dim, row, RowOf<BF16>(args.near_out, t) + h * dim);
    }
  }
  for (int64_t h = 0; h < num_value_heads; ++h) {
    const Int8Row value = Int8RowOf(args.paged, args.paged.values, num_value_heads, at, h);
    StoreInt8Row(args.v.f32_row(t) + h * dim, dim, value.numbers, value.scale);
  }
}

bool Served(const RopeCacheWriteArgs& args) {
  if (args.paged.keys == nullptr || args.paged.type != DType::kI8) return true;
  const bool near_served = args.near_out.data == nullptr || args.near_out.type == DType::kBF16;
  return args.head_dim <= kMaxHeadDim && near_served;
}

}  // namespace

void RopeCacheWrite(Stream& stream, const RopeCacheWriteArgs& args) {
  if (!stream.ok()) return;
  if (!Served(args)) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  const DType type = args.paged.keys != nullptr ? args.paged.type : args.k_out.type;
  const int64_t num_rows = args.batch.num_rows;
  const int64_t num_tasks = (num_rows + kTaskRows - 1) / kTaskRows;
  ParallelFor(stream.executor, static_cast<uint32_t>(num_tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskRows;
    const int64_t end = first + kTaskRows < num_rows ? first + kTaskRows : num_rows;
    for (int64_t t = first; t < end; ++t) {
      WriteQueries(args, t);
      if (type == DType::kI8) {
        WriteInt8Pages(args, t);
        continue;
      }
      ForType(type, [&](auto element) { WriteKeysAndValues<decltype(element)>(args, t); });
    }
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
