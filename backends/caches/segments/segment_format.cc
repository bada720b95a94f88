// Headers, blocks and runs of segments.
#include "backends/caches/segments/segment_format.h"

#include <bit>

#include "backends/caches/crc32c.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

static_assert(std::endian::native == std::endian::little, "segments are little-endian");
static_assert(static_cast<int>(DType::kF32) == 0 && static_cast<int>(DType::kF16) == 1 &&
                  static_cast<int>(DType::kBF16) == 2 && static_cast<int>(DType::kI8) == 3,
              "the types of a header have these numbers");

uint32_t ChecksumOf(const SegmentHeader& header) {
  return ExtendCrc32c(0, &header, offsetof(SegmentHeader, crc));
}

// FNV-1a over 64-bit numbers.
class NumberHash {
 public:
  template <typename... Numbers>
  void Add(Numbers... numbers) {
    for (const uint64_t number : {static_cast<uint64_t>(numbers)...}) {
      for (int shift = 0; shift < 64; shift += 8) {
        value_ = (value_ ^ ((number >> shift) & 0xff)) * 0x100000001b3u;
      }
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

bool IsPaged(CacheArray array) {
  return array == CacheArray::kPagedKeys || array == CacheArray::kPagedValues;
}

std::string Types(const SegmentHeader& header) {
  const auto name = [](uint8_t type) {
    return type <= static_cast<uint8_t>(DType::kI8) ? std::string(NameOf(static_cast<DType>(type)))
                                                    : "type " + std::to_string(type);
  };
  return "pages " + name(header.page_type) + ", rings " + name(header.ring_type) + ", states " +
         name(header.state_type);
}

[[noreturn]] void Refuse(const std::string& sentence) {
  throw BackendError(LS_FAILED_PRECONDITION, "segment: " + sentence);
}

// Whether a header with a valid checksum makes sense: a program that writes such a header is
// defective.
bool IsWellFormed(const SegmentHeader& header, size_t num_blocks) {
  const bool is_span = header.kind == SegmentKind::kSpan;
  if (!is_span && header.kind != SegmentKind::kFixed) return false;
  return header.num_blocks == num_blocks && header.begin <= header.end &&
         header.begin % kPageTokens == 0 &&
         (is_span ? header.end % kPageTokens == 0 : header.end - header.begin < kPageTokens);
}

// A header whose numbers have the other byte order, with a checksum that is right in that order.
bool IsOfOtherByteOrder(const SegmentHeader& header) {
  return header.byte_order == 0x04030201u && __builtin_bswap32(header.crc) == ChecksumOf(header);
}

}  // namespace

uint64_t LayoutFingerprint(const CacheLayout& layout) {
  NumberHash hash;
  hash.Add(layout.page_type, layout.ring_type, kPageTokens, kPrefillGrid, layout.layers.size());
  for (const LayerCacheLayout& layer : layout.layers) {
    if (layer.paged) {
      hash.Add(1, layer.paged->num_kv_heads, layer.paged->head_dim, layer.paged->value_slices);
    }
    if (layer.ring) {
      hash.Add(2, layer.ring->window, layer.ring->num_kv_heads, layer.ring->head_dim,
               layer.ring->value_slices);
    }
    if (layer.recurrent) {
      const RecurrentLayout& memory = *layer.recurrent;
      hash.Add(3, memory.num_heads, memory.num_kv_heads, memory.key_dim, memory.value_dim,
               memory.gated);
    }
  }
  return hash.value();
}

SegmentHeader MakeSegmentHeader(const CacheLayout& layout, uint64_t fingerprint, SegmentKind kind,
                                int64_t begin, int64_t position) {
  SegmentHeader header;
  header.kind = kind;
  header.num_blocks = static_cast<uint32_t>(BlocksOf(layout, kind).size());
  header.fingerprint = fingerprint;
  header.layout = LayoutFingerprint(layout);
  header.begin = static_cast<uint64_t>(
      kind == SegmentKind::kSpan ? begin : position / kPageTokens * kPageTokens);
  header.end = static_cast<uint64_t>(position);
  header.page_type = static_cast<uint8_t>(layout.page_type);
  header.ring_type = static_cast<uint8_t>(layout.ring_type);
  header.state_type = static_cast<uint8_t>(DType::kF32);
  header.crc = ChecksumOf(header);
  return header;
}

void CheckSegmentHeader(const SegmentHeader& header, const CacheLayout& layout,
                        uint64_t fingerprint, int64_t context_limit) {
  const SegmentHeader ours = MakeSegmentHeader(layout, fingerprint, SegmentKind::kFixed, 0, 0);
  const bool is_ours = header.magic == ours.magic;
  if (is_ours && IsOfOtherByteOrder(header)) Refuse("it is big-endian, expected little-endian");
  if (!is_ours || header.crc != ChecksumOf(header)) {
    throw BackendError(LS_DATA_LOSS, "segment: the header is damaged");
  }
  if (header.version != ours.version) {
    Refuse("format version " + std::to_string(header.version) + ", expected " +
           std::to_string(ours.version));
  }
  if (header.page_type != ours.page_type || header.ring_type != ours.ring_type ||
      header.state_type != ours.state_type) {
    Refuse("cache types: found " + Types(header) + ", expected " + Types(ours));
  }
  if (header.layout != ours.layout || header.page_tokens != ours.page_tokens ||
      header.grid != ours.grid) {
    Refuse("it is of a model with caches of another layout");
  }
  if (header.fingerprint != fingerprint) {
    Refuse("it is of another model, or of this one with other options");
  }
  if (!IsWellFormed(header, BlocksOf(layout, header.kind).size()) ||
      header.byte_order != ours.byte_order) {
    throw BackendError(LS_DATA_LOSS, "segment: the header contradicts itself");
  }
  if (header.end > static_cast<uint64_t>(context_limit)) {
    Refuse(NameOf(header) + " is past this model's context limit, " +
           std::to_string(context_limit));
  }
}

std::string NameOf(const SegmentHeader& header) {
  return header.kind == SegmentKind::kSpan
             ? "the span of tokens [" + std::to_string(header.begin) + ", " +
                   std::to_string(header.end) + ")"
             : "the fixed block of position " + std::to_string(header.end);
}

std::vector<SegmentBlock> BlocksOf(const CacheLayout& layout, SegmentKind kind) {
  std::vector<SegmentBlock> blocks;
  ForEachArray(layout, [&](size_t layer, CacheArray array) {
    if (kind == SegmentKind::kFixed || IsPaged(array)) blocks.push_back({layer, array});
  });
  return blocks;
}

void GetSpanRuns(const CacheLayout& layout, const PageStore& store, std::span<const int32_t> pages,
                 size_t num_pages, SegmentBlock block, std::vector<ByteRun>* runs) {
  const PagedLayout& paged = *layout.layers[block.layer].paged;
  const bool values = block.array == CacheArray::kPagedValues;
  const auto bytes = static_cast<size_t>(values ? paged.value_bytes(layout.page_type)
                                                : paged.key_bytes(layout.page_type));
  runs->clear();
  runs->reserve(num_pages);
  for (size_t i = 0; i < num_pages; ++i) {
    std::byte* place = i >= pages.size() ? nullptr
                       : values          ? store.values(block.layer, pages[i])
                                         : store.keys(block.layer, pages[i]);
    runs->push_back({place, bytes});
  }
}

void GetFixedRuns(const CacheLayout& layout, const FixedPlaces& places, int64_t position,
                  SegmentBlock block, std::vector<ByteRun>* runs) {
  runs->clear();
  const auto add = [runs](std::byte* data, size_t size) { runs->push_back({data, size}); };
  if (!IsPaged(block.array)) {
    return ForEachSlotRun(layout, block.layer, block.array, places.slot, position, add);
  }
  const int64_t tokens = position % kPageTokens;
  if (tokens == 0) return;
  const bool values = block.array == CacheArray::kPagedValues;
  const FixedPlaces::Page& page = places.last_page[block.layer];
  ForEachPageRun(layout, block.layer, values, values ? page.values : page.keys, tokens, add);
}

uint64_t SizeOfRuns(const std::vector<ByteRun>& runs) {
  uint64_t size = 0;
  for (const ByteRun& run : runs) size += run.size;
  return size;
}

uint64_t SegmentBytes(const CacheLayout& layout, const SegmentHeader& header) {
  const auto tokens = static_cast<int64_t>(header.end - header.begin);
  uint64_t data = 0;
  if (header.kind == SegmentKind::kSpan) {
    data = static_cast<uint64_t>(tokens) * layout.bytes_per_token;
  } else {
    // The runs are only counted, so no memory needs to be behind them.
    FixedPlaces nowhere;
    nowhere.last_page.resize(layout.layers.size());
    std::vector<ByteRun> runs;
    for (const SegmentBlock block : BlocksOf(layout, header.kind)) {
      GetFixedRuns(layout, nowhere, static_cast<int64_t>(header.end), block, &runs);
      data += SizeOfRuns(runs);
    }
  }
  return sizeof(header) + data +
         header.num_blocks * (sizeof(SegmentBlockHeader) + sizeof(uint32_t));
}

}  // namespace longstream
