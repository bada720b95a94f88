// The format of segments: headers, blocks and the places of their bytes. docs/snapshots.md
// describes it.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SEGMENT_FORMAT_H_
#define LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SEGMENT_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/api/backend.h"
#include "backends/caches/cache_layout.h"
#include "backends/caches/cache_runs.h"
#include "backends/caches/page_store.h"

namespace longstream {

enum class SegmentKind : uint32_t { kSpan = LS_SEGMENT_SPAN, kFixed = LS_SEGMENT_FIXED };

// The first bytes of a segment.
struct SegmentHeader {
  std::array<char, 8> magic = {'L', 'N', 'S', 'G', 'S', 'N', 'A', 'P'};
  uint32_t version = 2;
  uint32_t byte_order = 0x01020304;
  SegmentKind kind = SegmentKind::kSpan;
  uint32_t num_blocks = 0;
  uint64_t fingerprint = 0;  // of the model
  uint64_t layout = 0;       // LayoutFingerprint
  uint64_t begin = 0;        // a span has the tokens [begin, end); a fixed block is at position
  uint64_t end = 0;          // `end`, and `begin` is the first token of its page
  uint8_t page_type = 0;     // DType
  uint8_t ring_type = 0;
  uint8_t state_type = 0;
  uint8_t reserved = 0;
  uint32_t page_tokens = kPageTokens;
  uint32_t grid = kPrefillGrid;
  uint32_t crc = 0;  // of the fields before it
};
static_assert(sizeof(SegmentHeader) == 72 &&
              std::has_unique_object_representations_v<SegmentHeader>);

// Comes before a block's data. After the data comes a uint32 checksum, which continues that of the
// segment's header over block header and data. So a block of another segment does not match.
struct SegmentBlockHeader {
  uint32_t layer = 0;
  CacheArray array = CacheArray::kPagedKeys;
  uint64_t size = 0;  // bytes of data
};
static_assert(sizeof(SegmentBlockHeader) == 16 &&
              std::has_unique_object_representations_v<SegmentBlockHeader>);

// A hash of all numbers that decide which bytes a segment has: types and sizes of all arrays.
uint64_t LayoutFingerprint(const CacheLayout& layout);

// The header of a segment of this kind, with its checksum. `position` is the end of a span or the
// position of a fixed block; `begin` is used by spans only.
SegmentHeader MakeSegmentHeader(const CacheLayout& layout, uint64_t fingerprint, SegmentKind kind,
                                int64_t begin, int64_t position);

// Throws BackendError: LS_DATA_LOSS if the header is damaged, LS_FAILED_PRECONDITION if it is one
// of another byte order, version, model or layout, or of tokens past `context_limit`.
void CheckSegmentHeader(const SegmentHeader& header, const CacheLayout& layout,
                        uint64_t fingerprint, int64_t context_limit);

// The name of a segment in errors: "the span of tokens [0, 64)".
std::string NameOf(const SegmentHeader& header);

// Bytes that follow one another in memory. nullptr: bytes of a segment that are not needed.
struct ByteRun {
  std::byte* data = nullptr;
  size_t size = 0;
};

struct SegmentBlock {
  size_t layer = 0;
  CacheArray array = CacheArray::kPagedKeys;
};

// The blocks of a segment, in order.
std::vector<SegmentBlock> BlocksOf(const CacheLayout& layout, SegmentKind kind);

// The memory of a fixed block: of a sequence itself, or of a copy.
struct FixedPlaces {
  struct Page {
    std::byte* keys = nullptr;
    std::byte* values = nullptr;
  };
  std::byte* slot = nullptr;
  std::vector<Page> last_page;  // [layers] of the last page, if it is only partly full
};

// Replaces `runs` by those of one block of a span: one for each of `num_pages` pages. Pages beyond
// `pages` have no place.
void GetSpanRuns(const CacheLayout& layout, const PageStore& store, std::span<const int32_t> pages,
                 size_t num_pages, SegmentBlock block, std::vector<ByteRun>* runs);
// Replaces `runs` by those of one block of the fixed block of `position`.
void GetFixedRuns(const CacheLayout& layout, const FixedPlaces& places, int64_t position,
                  SegmentBlock block, std::vector<ByteRun>* runs);

// Bytes of all runs.
uint64_t SizeOfRuns(const std::vector<ByteRun>& runs);

// Bytes of a whole segment with this header.
uint64_t SegmentBytes(const CacheLayout& layout, const SegmentHeader& header);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SEGMENT_FORMAT_H_
