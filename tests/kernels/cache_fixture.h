// Batches, pages and rings for the tests of the ops that read and write caches.
//
// All memory that no row of a batch may read is NaN (Buffer). This is other pages, the unused end
// of the last page, and ring slots outside the window. Pages and slots are handed out in random
// order.
#ifndef LONGSTREAM_TESTS_KERNELS_CACHE_FIXTURE_H_
#define LONGSTREAM_TESTS_KERNELS_CACHE_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/batch_layout.h"
#include "tests/kernels/op_test.h"

namespace longstream {

// One sequence's part of a test batch.
struct TestSequence {
  int64_t first_position = 0;
  int32_t num_rows = 1;
  bool is_decode = false;

  int64_t end() const { return first_position + num_rows; }
};

// Where the caches of a sequence are. They stay there from step to step while the batches change.
struct TestPlace {
  std::vector<int32_t> pages;
  int32_t slot = 0;
};

// Places for sequences of up to `max_tokens` tokens. The ids of pages and slots are scattered, and
// some ids stay unused.
std::vector<TestPlace> ScatteredPlaces(int64_t num_sequences, int64_t max_tokens,
                                       int32_t page_tokens, Random& random);
int64_t NumPages(const std::vector<TestPlace>& places);
int64_t NumSlots(const std::vector<TestPlace>& places);

// Owns the arrays of a BatchLayout. Sequence i lies at places[which[i]].
class TestBatch {
 public:
  TestBatch(const std::vector<TestSequence>& sequences, const std::vector<TestPlace>& places,
            const std::vector<int64_t>& which);
  // Sequence i lies at places[i].
  TestBatch(const std::vector<TestSequence>& sequences, const std::vector<TestPlace>& places);

  const BatchLayout& layout() const { return layout_; }
  int64_t num_rows() const { return layout_.num_rows; }
  int64_t num_decode_rows() const { return layout_.num_decode_rows; }
  int64_t max_position() const;

 private:
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> row_sequence_;
  std::vector<int64_t> positions_;
  std::vector<int32_t> page_tables_;
  BatchLayout layout_;
};

// The type of the rings that a model has beside pages of `type`.
constexpr DType RingType(DType type) { return type == DType::kI8 ? DType::kBF16 : type; }

// The pages of one layer.
class OwnedPages {
 public:
  OwnedPages(DType type, int64_t num_pages, int32_t page_tokens, int32_t num_kv_heads,
             int32_t head_dim, int32_t value_slices = 1);

  const PagedCache& view() const { return view_; }
  // Bytes of all keys.
  size_t size() const { return keys_.size(); }
  size_t value_size() const { return values_.size(); }
  // Writes row `row` of k [*, num_kv_heads * head_dim] and of v [*, num_value_heads * head_dim] to
  // the place of position `position` of a sequence.
  void Write(const TestPlace& place, int64_t position, const OwnedMatrix& k, const OwnedMatrix& v,
             int64_t row);
  float key(const TestPlace& place, int64_t position, int64_t head, int64_t d) const;
  float value(const TestPlace& place, int64_t position, int64_t head, int64_t d) const;

 private:
  // The first byte of head `head` in the page that holds `position`. `store` is the store of keys
  // or of values.
  std::byte* Head(const Buffer& store, int64_t num_heads, const TestPlace& place, int64_t position,
                  int64_t head) const;
  std::byte* Key(const TestPlace& place, int64_t position, int64_t head) const {
    return Head(keys_, view_.num_kv_heads, place, position, head);
  }
  std::byte* Value(const TestPlace& place, int64_t position, int64_t head) const {
    return Head(values_, view_.num_value_heads(), place, position, head);
  }
  int64_t Slot(int64_t position) const { return position % view_.page_tokens; }
  std::byte* Scale(std::byte* head, int64_t slot) const;
  void WriteRow(std::byte* head, int64_t slot, const std::vector<float>& values) const;
  float Read(std::byte* head, int64_t slot, int64_t d) const;

  Buffer keys_;
  Buffer values_;
  PagedCache view_;
};

// The rings of one layer, with a gap between the rings of two slots.
class OwnedRings {
 public:
  OwnedRings(DType type, int64_t num_slots, int32_t slots, int32_t num_kv_heads, int32_t head_dim,
             bool has_values, int32_t value_slices = 1);

  const RingCache& view() const { return view_; }
  void Write(const TestPlace& place, int64_t position, const OwnedMatrix& k, const OwnedMatrix& v,
             int64_t row);
  float key(const TestPlace& place, int64_t position, int64_t head, int64_t d) const;
  float value(const TestPlace& place, int64_t position, int64_t head, int64_t d) const;

 private:
  std::byte* Element(std::byte* store, const TestPlace& place, int64_t position, int64_t head,
                     int64_t d) const;

  Buffer memory_;
  RingCache view_;
};

// Expects the same bytes in both arrays.
void ExpectSameBytes(const void* actual, const void* expected, size_t size,
                     const std::string& what);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_CACHE_FIXTURE_H_
