// The rows of one step: tokens of several sequences, one sequence after the other, and the
// descriptors that tell the ops which rows belong to which sequence.
#ifndef LONGSTREAM_BACKENDS_MODEL_STEP_STEP_ROWS_H_
#define LONGSTREAM_BACKENDS_MODEL_STEP_STEP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/caches/sequence_cache.h"
#include "backends/model/step/transfer.h"
#include "kernels/core/batch_layout.h"

namespace longstream {

// The rows are filled anew for each step, in memory that is allocated once. Not thread-safe.
class StepRows {
 public:
  // chunk_size: C of chunked RoPE, or 0. Throws BackendError(LS_RESOURCE_EXHAUSTED). `device` must
  // outlive the rows.
  StepRows(int64_t max_rows, int64_t max_sequences, int64_t chunk_size,
           Device& device = HostMemory());

  // Makes room for `num_pages` page ids in a step, for all its sequences together, and for the page
  // id that PadTo adds. It is called when pages are promised, so that Add and Upload allocate
  // nothing.
  void PreparePageTables(size_t num_pages);

  void Clear();

  // Adds a sequence's next tokens. `cache` already has their pages: the tokens are at its last
  // tokens.size() positions. Decode rows come before all others, because a kernel library may have
  // kernels of their own for them. A token below 0 stands for a token that the previous step
  // samples (EmbedArgs). Returns the first row.
  int32_t Add(const SequenceCache& cache, std::span<const int32_t> tokens, bool is_decode);

  // Adds decode rows until there are `num_rows`, and sets max_position() to `max_position`. Each
  // added row is a first token in the store's spare memory. The results of the other rows do not
  // change. For all steps that are padded to the same two numbers, ops are called with the same
  // arguments. REQUIRES: the step has decode rows only, and none is at a position after
  // `max_position`.
  void PadTo(int32_t num_rows, int64_t max_position, const CacheStore& caches);

  int32_t num_rows() const { return static_cast<int32_t>(ids_.size()); }
  int32_t num_decode_rows() const { return num_decode_rows_; }
  int32_t num_sequences() const { return static_cast<int32_t>(sequences_.size()); }
  int64_t max_position() const { return max_position_; }

  // Copies the rows to the device. Must come after the last Add. The functions below return what
  // ops read.
  void Upload();
  const BatchLayout& layout() const { return layout_; }
  const int32_t* ids() const { return device_ids_; }  // [T] token ids
  const int64_t* positions() const { return layout_.positions; }
  // [T] position div C, the rows of the chunk embedding; empty if C is 0.
  const int32_t* chunks() const { return device_chunks_; }

 private:
  // The most bytes that Upload takes, page tables not included.
  size_t FixedBytes() const;

  const int64_t chunk_size_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> positions_;
  std::vector<int32_t> chunks_;
  std::vector<int32_t> row_sequence_;
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> page_tables_;
  int64_t max_position_ = 0;
  int32_t num_decode_rows_ = 0;

  // The members below are set by Upload from those above.
  Arguments arguments_;
  BatchLayout layout_;
  const int32_t* device_ids_ = nullptr;
  const int32_t* device_chunks_ = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_STEP_STEP_ROWS_H_
