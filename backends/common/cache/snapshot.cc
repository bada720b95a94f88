// Export and import of a sequence's memory.
//
// Both walk through the same arrays in the same order (ForEachBlock, ForEachRun), one writing what
// the other reads: the format is what these two functions visit.
#include "backends/common/cache/snapshot.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <type_traits>

#include "backends/common/cache/crc32c.h"
#include "backends/common/error.h"

namespace longstream {
namespace {

static_assert(std::endian::native == std::endian::little, "snapshots are little-endian");

constexpr uint64_t kMagic = 0x50414e5347534e4cu;  // "LNSGSNAP"
constexpr uint32_t kVersion = 1;

struct Header {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t num_blocks = 0;
  uint64_t fingerprint = 0;
  uint64_t position = 0;
  uint32_t reserved = 0;
  uint32_t crc = 0;  // of what stands before it
};
static_assert(sizeof(Header) == 40 && std::has_unique_object_representations_v<Header>);

enum class Array : uint32_t {
  kPagedKeys = 0,
  kPagedValues = 1,
  kRingKeys = 2,
  kRingValues = 3,
  kState = 4,
  kPendingKeys = 5,
  kPendingValues = 6,
  kPendingGates = 7,
};

// Stands before a block's data; their common checksum, a uint32, stands behind it.
struct BlockHeader {
  uint32_t layer = 0;
  Array array = Array::kPagedKeys;
  uint64_t size = 0;  // of the data
};
static_assert(sizeof(BlockHeader) == 16 && std::has_unique_object_representations_v<BlockHeader>);

// Calls visit(data, size) for the used runs of [page][head][token], in that order.
template <typename Visit>
void PagedRuns(const SequenceCache& cache, size_t layer, bool values, Visit&& visit) {
  const CacheStore& store = cache.store();
  const PagedLayout& paged = *store.layout.layers[layer].paged;
  const size_t row = static_cast<size_t>(paged.head_dim) * SizeOf(store.layout.type);
  int64_t left = cache.position();
  for (const int32_t page : cache.page_table()) {
    std::byte* data = values ? store.pages.values(layer, page) : store.pages.keys(layer, page);
    const size_t tokens = static_cast<size_t>(std::min<int64_t>(left, kPageTokens));
    for (int32_t head = 0; head < paged.num_kv_heads; ++head) {
      visit(data + static_cast<size_t>(head) * kPageTokens * row, tokens * row);
    }
    left -= kPageTokens;
  }
}

// The window before the position, [head][token] with tokens in order: at most two runs a head.
template <typename Visit>
void RingRuns(const SequenceCache& cache, const RingLayout& ring, int64_t offset, Visit&& visit) {
  const CacheStore& store = cache.store();
  const size_t row = static_cast<size_t>(ring.head_dim) * SizeOf(store.layout.type);
  std::byte* data = store.slots.data(cache.slot()) + offset;
  for (int32_t head = 0; head < ring.num_kv_heads; ++head) {
    int64_t token = std::max<int64_t>(cache.position() - ring.window, 0);
    while (token < cache.position()) {
      const int64_t at = token % ring.slots;
      const int64_t tokens = std::min(cache.position() - token, ring.slots - at);
      visit(data + static_cast<size_t>(head * ring.slots + at) * row,
            static_cast<size_t>(tokens) * row);
      token += tokens;
    }
  }
}

// Calls visit(data, size) for the runs of bytes of one array of one layer.
template <typename Visit>
void ForEachRun(const SequenceCache& cache, size_t layer, Array array, Visit&& visit) {
  const LayerCacheLayout& layout = cache.store().layout.layers[layer];
  std::byte* slot = cache.store().slots.data(cache.slot());
  const size_t pending = static_cast<size_t>(cache.position() % kPrefillGrid);
  const auto f32 = [&](int64_t offset, int64_t elements) {
    visit(slot + offset, static_cast<size_t>(elements) * sizeof(float));
  };
  switch (array) {
    case Array::kPagedKeys:
      return PagedRuns(cache, layer, /*values=*/false, visit);
    case Array::kPagedValues:
      return PagedRuns(cache, layer, /*values=*/true, visit);
    case Array::kRingKeys:
      return RingRuns(cache, *layout.ring, layout.ring->keys, visit);
    case Array::kRingValues:
      return RingRuns(cache, *layout.ring, layout.ring->values, visit);
    case Array::kState:
      return f32(layout.recurrent->state, layout.recurrent->state_elements());
    case Array::kPendingKeys:
      return f32(layout.recurrent->keys, layout.recurrent->key_row() * pending);
    case Array::kPendingValues:
      return f32(layout.recurrent->values, layout.recurrent->value_row() * pending);
    case Array::kPendingGates:
      return f32(layout.recurrent->gates, layout.recurrent->gate_row() * pending);
  }
}

// Calls visit(layer, array) for every block of a snapshot, in order.
template <typename Visit>
void ForEachBlock(const CacheLayout& layout, Visit&& visit) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerCacheLayout& layer = layout.layers[i];
    if (layer.paged) {
      visit(i, Array::kPagedKeys);
      visit(i, Array::kPagedValues);
    }
    if (layer.ring) {
      visit(i, Array::kRingKeys);
      visit(i, Array::kRingValues);
    }
    if (layer.recurrent) {
      visit(i, Array::kState);
      visit(i, Array::kPendingKeys);
      visit(i, Array::kPendingValues);
      if (layer.recurrent->gated) visit(i, Array::kPendingGates);
    }
  }
}

BlockHeader MakeBlockHeader(const SequenceCache& cache, size_t layer, Array array) {
  BlockHeader header{static_cast<uint32_t>(layer), array, 0};
  ForEachRun(cache, layer, array, [&](const std::byte*, size_t size) { header.size += size; });
  return header;
}

uint32_t NumBlocks(const CacheLayout& layout) {
  uint32_t count = 0;
  ForEachBlock(layout, [&](size_t, Array) { ++count; });
  return count;
}

uint32_t ChecksumOf(const Header& header) {
  return ExtendCrc32c(0, &header, offsetof(Header, crc));
}

// Writes or reads, with a running checksum.
class Output {
 public:
  explicit Output(const ls_writer& writer) : writer_(writer) {}

  void Write(const void* data, size_t size) {
    crc_ = ExtendCrc32c(crc_, data, size);
    if (writer_.write(writer_.context, data, size) == 0) return;
    throw BackendError(LS_UNAVAILABLE, "snapshot: the host's writer gave up");
  }
  void EndBlock() {
    const uint32_t crc = crc_;
    Write(&crc, sizeof(crc));
    crc_ = 0;
  }

 private:
  const ls_writer& writer_;
  uint32_t crc_ = 0;
};

class Input {
 public:
  explicit Input(const ls_reader& reader) : reader_(reader) {}

  void Read(void* data, size_t size) {
    if (reader_.read(reader_.context, data, size) != 0) {
      throw BackendError(LS_DATA_LOSS, "snapshot: it ends early");
    }
    crc_ = ExtendCrc32c(crc_, data, size);
  }
  // Whether the checksum that follows is that of what was read since the last one.
  bool EndBlock() {
    const uint32_t expected = crc_;
    uint32_t found = 0;
    Read(&found, sizeof(found));
    crc_ = 0;
    return found == expected;
  }

 private:
  const ls_reader& reader_;
  uint32_t crc_ = 0;
};

void CheckHeader(const Header& header, const CacheStore& store, uint64_t fingerprint,
                 int64_t context_limit) {
  if (header.magic != kMagic || header.crc != ChecksumOf(header)) {
    throw BackendError(LS_DATA_LOSS, "snapshot: the header is damaged");
  }
  if (header.version != kVersion) {
    throw BackendError(LS_FAILED_PRECONDITION, "snapshot: format version " +
                                                   std::to_string(header.version) + ", expected " +
                                                   std::to_string(kVersion));
  }
  if (header.fingerprint != fingerprint || header.num_blocks != NumBlocks(store.layout)) {
    throw BackendError(LS_FAILED_PRECONDITION,
                       "snapshot: it is of another model, or of this one with other options");
  }
  if (header.position > static_cast<uint64_t>(context_limit)) {
    throw BackendError(LS_FAILED_PRECONDITION,
                       "snapshot: position " + std::to_string(header.position) +
                           " is past this model's context limit, " + std::to_string(context_limit));
  }
}

}  // namespace

void ExportSequence(const SequenceCache& cache, uint64_t fingerprint, const ls_writer& writer) {
  if (cache.failed()) {
    throw BackendError(LS_FAILED_PRECONDITION,
                       "export: the sequence has failed; truncate it first");
  }
  const CacheLayout& layout = cache.store().layout;
  Header header;
  header.num_blocks = NumBlocks(layout);
  header.fingerprint = fingerprint;
  header.position = static_cast<uint64_t>(cache.position());
  header.crc = ChecksumOf(header);
  Output(writer).Write(&header, sizeof(header));

  Output output(writer);
  ForEachBlock(layout, [&](size_t layer, Array array) {
    const BlockHeader block = MakeBlockHeader(cache, layer, array);
    output.Write(&block, sizeof(block));
    ForEachRun(cache, layer, array,
               [&](const std::byte* data, size_t size) { output.Write(data, size); });
    output.EndBlock();
  });
}

std::unique_ptr<SequenceCache> ImportSequence(CacheStore& store, uint64_t fingerprint,
                                              int64_t context_limit, const ls_reader& reader) {
  Header header;
  Input(reader).Read(&header, sizeof(header));
  CheckHeader(header, store, fingerprint, context_limit);

  auto cache = std::make_unique<SequenceCache>(store);
  cache->Occupy(static_cast<int64_t>(header.position));
  Input input(reader);
  ForEachBlock(store.layout, [&](size_t layer, Array array) {
    const BlockHeader expected = MakeBlockHeader(*cache, layer, array);
    BlockHeader block;
    input.Read(&block, sizeof(block));
    const bool fits = block.layer == expected.layer && block.array == expected.array &&
                      block.size == expected.size;
    if (fits) {
      ForEachRun(*cache, layer, array,
                 [&](std::byte* data, size_t size) { input.Read(data, size); });
    }
    if (!fits || !input.EndBlock()) {
      throw BackendError(LS_DATA_LOSS, "snapshot: layer " + std::to_string(layer) +
                                           " is damaged: its checksum does not match its contents");
    }
  });
  return cache;
}

}  // namespace longstream
