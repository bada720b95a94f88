// Rows and descriptors of a step.
#include "backends/model/step/step_rows.h"

#include <algorithm>
#include <cassert>

namespace longstream {

StepRows::StepRows(int64_t max_rows, int64_t max_sequences, int64_t chunk_size, Device& device)
    : chunk_size_(chunk_size), arguments_(device) {
  const size_t rows = static_cast<size_t>(max_rows);
  ids_.reserve(rows);
  positions_.reserve(rows);
  if (chunk_size > 0) chunks_.reserve(rows);
  row_sequence_.reserve(rows);
  sequences_.reserve(static_cast<size_t>(max_sequences));
  arguments_.Reserve(FixedBytes());
}

size_t StepRows::FixedBytes() const {
  return TransferBytes(ids_.capacity(), sizeof(int32_t)) +
         TransferBytes(positions_.capacity(), sizeof(int64_t)) +
         TransferBytes(chunks_.capacity(), sizeof(int32_t)) +
         TransferBytes(row_sequence_.capacity(), sizeof(int32_t)) +
         TransferBytes(sequences_.capacity(), sizeof(SequenceRows));
}

void StepRows::PreparePageTables(size_t num_pages) {
  page_tables_.reserve(num_pages + 1);
  arguments_.Reserve(FixedBytes() + TransferBytes(num_pages + 1, sizeof(int32_t)));
}

void StepRows::Clear() {
  layout_ = {};
  ids_.clear();
  positions_.clear();
  chunks_.clear();
  row_sequence_.clear();
  sequences_.clear();
  page_tables_.clear();
  max_position_ = 0;
  num_decode_rows_ = 0;
}

int32_t StepRows::Add(const SequenceCache& cache, std::span<const int32_t> tokens, bool is_decode) {
  assert(!is_decode || (tokens.size() == 1 && num_decode_rows_ == num_rows()));
  const int64_t first_position = cache.position() - static_cast<int64_t>(tokens.size());
  const SequenceRows rows{.first_row = num_rows(),
                          .num_rows = static_cast<int32_t>(tokens.size()),
                          .first_position = first_position,
                          .slot = cache.slot(),
                          .page_offset = static_cast<int32_t>(page_tables_.size()),
                          .is_decode = is_decode ? 1 : 0};
  if (is_decode) ++num_decode_rows_;
  row_sequence_.insert(row_sequence_.end(), tokens.size(), num_sequences());
  sequences_.push_back(rows);
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  for (int64_t position = first_position; position < cache.position(); ++position) {
    positions_.push_back(position);
    if (chunk_size_ > 0) chunks_.push_back(static_cast<int32_t>(position / chunk_size_));
  }
  const std::span<const int32_t> pages = cache.page_table();
  page_tables_.insert(page_tables_.end(), pages.begin(), pages.end());
  max_position_ = std::max(max_position_, cache.position() - 1);
  return rows.first_row;
}

void StepRows::PadTo(int32_t num_rows, int64_t max_position, const CacheStore& caches) {
  assert(num_decode_rows_ == this->num_rows() && max_position_ <= max_position);
  const auto page_offset = static_cast<int32_t>(page_tables_.size());
  if (caches.layout.has_pages()) page_tables_.push_back(caches.pages.spare());
  while (this->num_rows() < num_rows) {
    row_sequence_.push_back(num_sequences());
    sequences_.push_back({.first_row = this->num_rows(),
                          .num_rows = 1,
                          .first_position = 0,
                          .slot = caches.slots.spare(),
                          .page_offset = page_offset,
                          .is_decode = 1});
    ids_.push_back(0);
    positions_.push_back(0);
    if (chunk_size_ > 0) chunks_.push_back(0);
    ++num_decode_rows_;
  }
  max_position_ = max_position;
}

// Page tables come last, because their size varies. So the places of the other arrays depend only
// on the numbers of rows and sequences.
void StepRows::Upload() {
  arguments_.Begin();
  device_ids_ = arguments_.Add(ids_);
  device_chunks_ = arguments_.Add(chunks_);
  layout_ = {.num_rows = num_rows(),
             .num_sequences = num_sequences(),
             .num_decode_rows = num_decode_rows_,
             .sequences = arguments_.Add(sequences_),
             .row_sequence = arguments_.Add(row_sequence_),
             .positions = arguments_.Add(positions_),
             .page_tables = arguments_.Add(page_tables_)};
  arguments_.Upload();
}

}  // namespace longstream
