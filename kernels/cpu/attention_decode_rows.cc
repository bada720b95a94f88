// Blocks of bf16 rows, where they lie or gathered.
#include "kernels/cpu/attention_decode_rows.h"

#if defined(__AVX2__)

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

int64_t LinesOf(int64_t dim) {
#if defined(__AVX512BF16__)
  return NumVectors(dim, PairRows::kVectorDims);
#else
  return (dim + PairRows::kVectorDims - 1) / PairRows::kVectorDims;
#endif
}

}  // namespace

PairRows::PairRows(const DecodeShape& shape, const HeadRows& rows)
    : dim_(shape.dim),
      rows_(rows),
      num_vectors_(LinesOf(shape.dim)),
      gathered_(reinterpret_cast<BF16*>(shape.scratch->rows)) {
  static_assert(kMaxHeadDim == 8 * kVectorDims);
}

const BF16* PairRows::InPlace(const HeadRows& rows, int64_t block, int64_t begin,
                              int64_t end) const {
  // A page is there as a whole; a ring's blocks end anywhere.
  const bool whole = begin == block && end == block + kKeyBlock;
  if (!whole && rows.pages == nullptr) return nullptr;
  const int64_t row = num_vectors_ * kVectorDims;
  const RowRun run = rows.From(block);
  const bool without_gaps = dim_ == row && run.count >= kKeyBlock &&
                            run.stride == row * static_cast<int64_t>(sizeof(BF16));
  return without_gaps ? reinterpret_cast<const BF16*>(run.data) : nullptr;
}

const BF16* PairRows::AskBut(int64_t beside) const {
  const bool enough = num_next_ >= beside;
  const int64_t row = num_vectors_ * kVectorDims;
  ForAsks(next_, [&](auto asks) {
    for (int64_t i = enough ? beside * row : 0; i < num_next_ * row; i += kVectorDims) {
      AskFor<decltype(asks)::value>(next_, i);
    }
  });
  return enough ? next_ : nullptr;
}

const BF16* PairRows::Block(int64_t block, int64_t begin, int64_t end) {
  if (const BF16* in_place = InPlace(rows_, block, begin, end)) return in_place;
  const int64_t row = num_vectors_ * kVectorDims;
  if (dim_ != row)
    __builtin_memset(gathered_, 0, static_cast<size_t>(kKeyBlock * row) * sizeof(BF16));
  ForEachRun(rows_, begin, end, [&](int64_t position, const RowRun& run) {
    BF16* to = gathered_ + (position - block) * row;
    for (int64_t i = 0; i < run.count; ++i) {
      __builtin_memcpy(to + i * row, run.data + i * run.stride,
                       static_cast<size_t>(dim_) * sizeof(BF16));
    }
  });
  return gathered_;
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
