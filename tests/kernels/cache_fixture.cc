// Batches, pages and rings for the tests of the ops that read and write caches.
#include "tests/kernels/cache_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace longstream {
namespace {

constexpr int64_t kGapBytes = 192;

// The numbers 0 ... count - 1 in random order.
std::vector<int32_t> Shuffled(int64_t count, Random& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(ids[static_cast<size_t>(i)], ids[static_cast<size_t>(random.Integer(0, i))]);
  }
  return ids;
}

std::vector<int64_t> Identity(size_t count) {
  std::vector<int64_t> which(count);
  std::iota(which.begin(), which.end(), 0);
  return which;
}

size_t RingBytes(DType type, int32_t slots, int32_t num_kv_heads, int32_t head_dim) {
  return static_cast<size_t>(slots) * static_cast<size_t>(num_kv_heads) *
         static_cast<size_t>(head_dim) * SizeOf(type);
}

}  // namespace

std::vector<TestPlace> ScatteredPlaces(int64_t num_sequences, int64_t max_tokens,
                                       int32_t page_tokens, Random& random) {
  const int64_t pages = (max_tokens + page_tokens - 1) / page_tokens;
  const std::vector<int32_t> page_ids = Shuffled(num_sequences * pages + 3, random);
  const std::vector<int32_t> slot_ids = Shuffled(num_sequences + 1, random);
  std::vector<TestPlace> places(static_cast<size_t>(num_sequences));
  auto next = page_ids.begin();
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].pages.assign(next, next + pages);
    places[i].slot = slot_ids[i];
    next += pages;
  }
  return places;
}

int64_t NumPages(const std::vector<TestPlace>& places) {
  int32_t largest = 0;
  for (const TestPlace& place : places) {
    for (int32_t page : place.pages) largest = std::max(largest, page);
  }
  return largest + 1;
}

int64_t NumSlots(const std::vector<TestPlace>& places) {
  int32_t largest = 0;
  for (const TestPlace& place : places) largest = std::max(largest, place.slot);
  return largest + 1;
}

TestBatch::TestBatch(const std::vector<TestSequence>& sequences,
                     const std::vector<TestPlace>& places)
    : TestBatch(sequences, places, Identity(sequences.size())) {}

TestBatch::TestBatch(const std::vector<TestSequence>& sequences,
                     const std::vector<TestPlace>& places, const std::vector<int64_t>& which) {
  for (size_t s = 0; s < sequences.size(); ++s) {
    const TestPlace& place = places[static_cast<size_t>(which[s])];
    SequenceRows rows;
    rows.first_row = static_cast<int32_t>(positions_.size());
    rows.num_rows = sequences[s].num_rows;
    rows.first_position = sequences[s].first_position;
    rows.slot = place.slot;
    rows.page_offset = static_cast<int32_t>(page_tables_.size());
    rows.is_decode = sequences[s].is_decode ? 1 : 0;
    sequences_.push_back(rows);
    page_tables_.insert(page_tables_.end(), place.pages.begin(), place.pages.end());
    for (int32_t i = 0; i < rows.num_rows; ++i) {
      row_sequence_.push_back(static_cast<int32_t>(s));
      positions_.push_back(rows.first_position + i);
    }
  }
  layout_.num_rows = static_cast<int32_t>(positions_.size());
  layout_.num_sequences = static_cast<int32_t>(sequences_.size());
  layout_.num_decode_rows = static_cast<int32_t>(
      std::count_if(sequences_.begin(), sequences_.end(),
                    [](const SequenceRows& rows) { return rows.is_decode != 0; }));
  layout_.sequences = sequences_.data();
  layout_.row_sequence = row_sequence_.data();
  layout_.positions = positions_.data();
  layout_.page_tables = page_tables_.data();
}

int64_t TestBatch::max_position() const {
  return *std::max_element(positions_.begin(), positions_.end());
}

OwnedPages::OwnedPages(DType type, int64_t num_pages, int32_t page_tokens, int32_t num_kv_heads,
                       int32_t head_dim, int32_t value_slices)
    : keys_(static_cast<size_t>(num_pages * num_kv_heads *
                                PagedHeadBytes(type, page_tokens, head_dim))),
      values_(keys_.size() * static_cast<size_t>(value_slices)),
      view_{keys_.data(), values_.data(), type, page_tokens, num_kv_heads, head_dim, value_slices} {
}

std::byte* OwnedPages::Head(const Buffer& store, int64_t num_heads, const TestPlace& place,
                            int64_t position, int64_t head) const {
  const int64_t page = place.pages[static_cast<size_t>(position / view_.page_tokens)];
  return store.data() +
         (page * num_heads + head) * PagedHeadBytes(view_.type, view_.page_tokens, view_.head_dim);
}

std::byte* OwnedPages::Scale(std::byte* head, int64_t slot) const {
  return head + int64_t{view_.page_tokens} * view_.head_dim + 2 * slot;
}

void OwnedPages::WriteRow(std::byte* head, int64_t slot, const std::vector<float>& values) const {
  const auto dim = static_cast<int64_t>(values.size());
  if (view_.type != DType::kI8) {
    std::byte* row = head + slot * dim * static_cast<int64_t>(SizeOf(view_.type));
    for (const float value : values) {
      StoreElement(view_.type, value, row);
      row += SizeOf(view_.type);
    }
    return;
  }
  float largest = 0.0f;
  bool finite = true;
  for (const float value : values) {
    largest = std::max(largest, std::fabs(value));
    finite = finite && std::isfinite(value);
  }
  if (!finite) {
    StoreElement(DType::kBF16, std::numeric_limits<float>::quiet_NaN(), Scale(head, slot));
    std::fill_n(head + slot * dim, dim, std::byte{0});
    return;
  }
  const float scale = RoundTo(DType::kBF16, largest / 127.0f);
  StoreElement(DType::kBF16, scale, Scale(head, slot));
  for (int64_t d = 0; d < dim; ++d) {
    const float number = scale == 0.0f ? 0.0f : std::rint(values[static_cast<size_t>(d)] / scale);
    const float clamped = std::min(std::max(number, -127.0f), 127.0f);
    head[slot * dim + d] = static_cast<std::byte>(static_cast<int8_t>(clamped));
  }
}

float OwnedPages::Read(std::byte* head, int64_t slot, int64_t d) const {
  const int64_t index = slot * view_.head_dim + d;
  if (view_.type != DType::kI8) {
    return LoadElement(view_.type, head + index * static_cast<int64_t>(SizeOf(view_.type)));
  }
  return LoadElement(DType::kBF16, Scale(head, slot)) *
         static_cast<float>(static_cast<int8_t>(head[index]));
}

void OwnedPages::Write(const TestPlace& place, int64_t position, const OwnedMatrix& k,
                       const OwnedMatrix& v, int64_t row) {
  std::vector<float> values(static_cast<size_t>(view_.head_dim));
  const auto write = [&](const OwnedMatrix& from, int64_t head, std::byte* to) {
    for (int64_t d = 0; d < view_.head_dim; ++d) {
      values[static_cast<size_t>(d)] = from.at(row, head * view_.head_dim + d);
    }
    WriteRow(to, Slot(position), values);
  };
  for (int64_t h = 0; h < view_.num_kv_heads; ++h) write(k, h, Key(place, position, h));
  for (int64_t h = 0; h < view_.num_value_heads(); ++h) write(v, h, Value(place, position, h));
}

float OwnedPages::key(const TestPlace& place, int64_t position, int64_t head, int64_t d) const {
  return Read(Key(place, position, head), Slot(position), d);
}

float OwnedPages::value(const TestPlace& place, int64_t position, int64_t head, int64_t d) const {
  return Read(Value(place, position, head), Slot(position), d);
}

OwnedRings::OwnedRings(DType type, int64_t num_slots, int32_t slots, int32_t num_kv_heads,
                       int32_t head_dim, bool has_values, int32_t value_slices) {
  const size_t ring_bytes = RingBytes(type, slots, num_kv_heads, head_dim);
  // The values of a slot follow its keys in memory.
  const size_t value_bytes = has_values ? ring_bytes * static_cast<size_t>(value_slices) : 0;
  view_.slot_stride = static_cast<int64_t>(ring_bytes + value_bytes) + kGapBytes;
  memory_ = Buffer(static_cast<size_t>(num_slots * view_.slot_stride));
  view_.keys = memory_.data();
  if (has_values) view_.values = memory_.data() + ring_bytes;
  view_.type = type;
  view_.slots = slots;
  view_.num_kv_heads = num_kv_heads;
  view_.head_dim = head_dim;
  view_.value_slices = value_slices;
}

std::byte* OwnedRings::Element(std::byte* store, const TestPlace& place, int64_t position,
                               int64_t head, int64_t d) const {
  const int64_t index = (head * view_.slots + position % view_.slots) * view_.head_dim + d;
  return store + place.slot * view_.slot_stride + index * static_cast<int64_t>(SizeOf(view_.type));
}

void OwnedRings::Write(const TestPlace& place, int64_t position, const OwnedMatrix& k,
                       const OwnedMatrix& v, int64_t row) {
  const auto write = [&](const OwnedMatrix& from, std::byte* store, int64_t num_heads) {
    for (int64_t h = 0; h < num_heads; ++h) {
      for (int64_t d = 0; d < view_.head_dim; ++d) {
        StoreElement(view_.type, from.at(row, h * view_.head_dim + d),
                     Element(store, place, position, h, d));
      }
    }
  };
  write(k, view_.keys, view_.num_kv_heads);
  if (view_.values != nullptr) write(v, view_.values, view_.num_value_heads());
}

float OwnedRings::key(const TestPlace& place, int64_t position, int64_t head, int64_t d) const {
  return LoadElement(view_.type, Element(view_.keys, place, position, head, d));
}

float OwnedRings::value(const TestPlace& place, int64_t position, int64_t head, int64_t d) const {
  return LoadElement(view_.type, Element(view_.values, place, position, head, d));
}

void ExpectSameBytes(const void* actual, const void* expected, size_t size,
                     const std::string& what) {
  EXPECT_EQ(std::memcmp(actual, expected, size), 0) << what;
}

}  // namespace longstream
