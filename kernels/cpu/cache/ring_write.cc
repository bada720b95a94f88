// Ring write (kernels/ops/cache/ring_write.h).
#include "kernels/ops/cache/ring_write.h"

#include <cstring>

#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// Copies one head of the rows [first, num_rows) of a sequence into its ring.
void WriteHead(const SequenceRows& sequence, int64_t first, int64_t head, const Matrix& rows,
               const RingCache& ring, std::byte* store) {
  const int64_t element = static_cast<int64_t>(SizeOf(ring.type));
  const int64_t row_bytes = ring.head_dim * element;
  std::byte* to = store + sequence.slot * ring.slot_stride + head * ring.slots * row_bytes;
  const auto* from = static_cast<const std::byte*>(rows.data) + head * row_bytes;
  for (int64_t i = first; i < sequence.num_rows; ++i) {
    const int64_t slot = (sequence.first_position + i) % ring.slots;
    std::memcpy(to + slot * row_bytes, from + (sequence.first_row + i) * rows.stride * element,
                static_cast<size_t>(row_bytes));
  }
}

}  // namespace

void RingWrite(Stream& stream, const RingWriteArgs& args) {
  if (!stream.ok()) return;
  const RingCache& ring = args.ring;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.batch.num_sequences), [&](uint32_t s) {
    const SequenceRows& sequence = args.batch.sequences[s];
    const int64_t surplus = int64_t{sequence.num_rows} - ring.slots;
    const int64_t first = surplus > 0 ? surplus : 0;
    for (int64_t head = 0; head < ring.num_kv_heads; ++head) {
      WriteHead(sequence, first, head, args.k, ring, ring.keys);
    }
    if (ring.values == nullptr) return;
    for (int64_t head = 0; head < ring.num_value_heads(); ++head) {
      WriteHead(sequence, first, head, args.v, ring, ring.values);
    }
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
