// Blocks of rows that a decode row reads, in place or gathered.
#include "kernels/cpu/attention/attention_decode_rows.h"

#if defined(__AVX2__)

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of registers that a row needs; on AVX-512 it is rounded up to a power of two.
int64_t RegistersOf(int64_t dim, int64_t register_dims) {
#if defined(__AVX512F__)
  return NumVectors(dim, register_dims);
#else
  return (dim + register_dims - 1) / register_dims;
#endif
}

}  // namespace

PairRows::PairRows(const DecodeShape& shape, const HeadRows& rows)
    : dim_(shape.dim),
      rows_(rows),
      num_vectors_(RegistersOf(shape.dim, kVectorDims)),
      gathered_(reinterpret_cast<BF16*>(shape.scratch->rows)) {
  static_assert(kMaxHeadDim == 8 * kVectorDims);
}

const BF16* PairRows::InPlace(const HeadRows& rows, int64_t block, int64_t begin,
                              int64_t end) const {
  // A whole block of a page can always be read. A block of a ring may be incomplete, so it is read
  // in place only if all its rows are wanted.
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

Int8Rows::Int8Rows(const DecodeShape& shape, const HeadRows& rows)
    : dim_(shape.dim),
      rows_(rows),
      num_vectors_(RegistersOf(shape.dim, kVectorDims)),
      gathered_(reinterpret_cast<int8_t*>(shape.scratch->rows)) {
  static_assert(kMaxHeadDim % kVectorDims == 0);
}

// Returns the whole block in place if it lies in one page, else no block. The block may have rows
// beyond the sequence's end; they are read too.
Int8Rows::Block Int8Rows::InPlace(const HeadRows& rows, int64_t block) const {
  if (dim_ != num_vectors_ * kVectorDims) return {};
  const RowRun run = rows.From(block);
  if (run.count < kKeyBlock) return {};
  return {reinterpret_cast<const int8_t*>(run.data), run.scales};
}

void Int8Rows::Announce(const HeadRows& rows, int64_t begin, int64_t end) {
  next_ = begin < end && begin % kKeyBlock == 0 ? InPlace(rows, begin) : Block{};
}

Int8Rows::Block Int8Rows::Of(int64_t block, int64_t begin, int64_t end) {
  if (const Block in_place = InPlace(rows_, block); in_place.rows != nullptr) return in_place;
  const int64_t row = num_vectors_ * kVectorDims;
  __builtin_memset(gathered_, 0, static_cast<size_t>(kKeyBlock * row));
  ForEachRun(rows_, begin, end, [&](int64_t position, const RowRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t at = position - block + i;
      __builtin_memcpy(gathered_ + at * row, run.data + i * run.stride, static_cast<size_t>(dim_));
      gathered_scales_[at] = run.scales[i];
    }
  });
  return {gathered_, gathered_scales_};
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif
