// Exports and imports a sequence's memory.
//
// An export and an import visit the same arrays in the same order, by ForEachArray and ForEachRun.
// So the import reads the bytes that the export wrote. These two functions and cache_runs.h define
// version 1 of the format.
#include "backends/caches/snapshot.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/caches/cache_runs.h"
#include "backends/caches/crc32c.h"
#include "backends/errors/device_failure.h"
#include "backends/errors/error.h"

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
  uint32_t crc = 0;  // of the fields before it
};
static_assert(sizeof(Header) == 40 && std::has_unique_object_representations_v<Header>);

// Comes before a block's data. After the data comes a uint32 checksum of header and data.
struct BlockHeader {
  uint32_t layer = 0;
  CacheArray array = CacheArray::kPagedKeys;
  uint64_t size = 0;  // bytes of data
};
static_assert(sizeof(BlockHeader) == 16 && std::has_unique_object_representations_v<BlockHeader>);

// Calls visit(data, size) for the runs of bytes of one array of one layer. Pages come in the order
// of their tokens.
template <typename Visit>
void ForEachRun(const SequenceCache& cache, size_t layer, CacheArray array, Visit&& visit) {
  const CacheStore& store = cache.store();
  const bool values = array == CacheArray::kPagedValues;
  if (!values && array != CacheArray::kPagedKeys) {
    std::byte* slot = store.slots.data(cache.slot());
    return ForEachSlotRun(store.layout, layer, array, slot, cache.position(), visit);
  }
  int64_t left = cache.position();
  for (const int32_t page : cache.page_table()) {
    std::byte* data = values ? store.pages.values(layer, page) : store.pages.keys(layer, page);
    ForEachPageRun(store.layout, layer, values, data, std::min<int64_t>(left, kPageTokens), visit);
    left -= kPageTokens;
  }
}

BlockHeader MakeBlockHeader(const SequenceCache& cache, size_t layer, CacheArray array) {
  BlockHeader header{static_cast<uint32_t>(layer), array, 0};
  ForEachRun(cache, layer, array, [&](const std::byte*, size_t size) { header.size += size; });
  return header;
}

uint32_t NumBlocks(const CacheLayout& layout) {
  uint32_t count = 0;
  ForEachArray(layout, [&](size_t, CacheArray) { ++count; });
  return count;
}

uint32_t ChecksumOf(const Header& header) {
  return ExtendCrc32c(0, &header, offsetof(Header, crc));
}

// The size of the host buffer through which device memory passes.
constexpr size_t kStageBytes = size_t{4} << 20;

// A buffer in host memory, for devices with their own memory. It gathers many runs of device
// memory, so that one Synchronize covers many transfers.
class Stage {
 public:
  explicit Stage(Device& device) : device_(device) {}
  // Waits, because after an error transfers may still use the buffer.
  ~Stage() { device_.Synchronize(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Cuts the next `size` bytes of device memory into pieces that fit into the buffer, and calls
  // transfer(host memory, device memory, size) for each. Whenever the buffer is full, calls flush()
  // first.
  template <typename Byte, typename Transfer, typename Flush>
  void Add(Byte* data, size_t size, Transfer&& transfer, Flush&& flush) {
    if (bytes_.empty()) bytes_.resize(kStageBytes);
    while (size > 0) {
      if (used_ == bytes_.size()) flush();
      const size_t piece = std::min(size, bytes_.size() - used_);
      transfer(bytes_.data() + used_, data, piece);
      used_ += piece;
      data += piece;
      size -= piece;
    }
  }
  // Waits for the transfers. Returns the bytes gathered since the last call, and empties the
  // buffer.
  std::span<const std::byte> Take() {
    RequireDone(device_.Synchronize(), "snapshot");
    return {bytes_.data(), std::exchange(used_, 0)};
  }

 private:
  Device& device_;
  std::vector<std::byte> bytes_;
  size_t used_ = 0;
};

// Writes bytes and keeps a running checksum of them.
class Output {
 public:
  Output(const ls_writer& writer, Device& device)
      : writer_(writer), device_(device), stage_(device) {}

  void Write(const void* data, size_t size) {
    crc_ = ExtendCrc32c(crc_, data, size);
    if (writer_.write(writer_.context, data, size) == 0) return;
    throw BackendError(LS_UNAVAILABLE, "snapshot: the host's writer gave up");
  }
  // Starts a new checksum: the header has one of its own.
  void Restart() { crc_ = 0; }
  // Writes memory of the device.
  void WriteMemory(const std::byte* data, size_t size) {
    if (device_.host_memory()) return Write(data, size);
    stage_.Add(
        data, size,
        [&](void* to, const void* from, size_t piece) { device_.Download(to, from, piece); },
        [&] { Flush(); });
  }
  void EndBlock() {
    if (!device_.host_memory()) Flush();
    const uint32_t crc = crc_;
    Write(&crc, sizeof(crc));
    crc_ = 0;
  }

 private:
  void Flush() {
    const std::span<const std::byte> bytes = stage_.Take();
    if (!bytes.empty()) Write(bytes.data(), bytes.size());
  }

  const ls_writer& writer_;
  Device& device_;
  Stage stage_;
  uint32_t crc_ = 0;
};

class Input {
 public:
  Input(const ls_reader& reader, Device& device)
      : reader_(reader), device_(device), stage_(device) {}

  void Read(void* data, size_t size) {
    if (reader_.read(reader_.context, data, size) != 0) {
      throw BackendError(LS_DATA_LOSS, "snapshot: it ends early");
    }
    crc_ = ExtendCrc32c(crc_, data, size);
  }
  void Restart() { crc_ = 0; }
  void ReadMemory(std::byte* data, size_t size) {
    if (device_.host_memory()) return Read(data, size);
    stage_.Add(
        data, size,
        [&](void* from, void* to, size_t piece) {
          Read(from, piece);
          device_.Upload(to, from, piece);
        },
        [&] { stage_.Take(); });
  }
  // Reads a block's checksum. Returns whether it matches the bytes read since the last checksum.
  bool EndBlock() {
    if (!device_.host_memory()) stage_.Take();
    const uint32_t expected = crc_;
    uint32_t found = 0;
    Read(&found, sizeof(found));
    crc_ = 0;
    return found == expected;
  }

 private:
  const ls_reader& reader_;
  Device& device_;
  Stage stage_;
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
  Output output(writer, cache.store().device);
  Header header;
  header.num_blocks = NumBlocks(layout);
  header.fingerprint = fingerprint;
  header.position = static_cast<uint64_t>(cache.position());
  header.crc = ChecksumOf(header);
  output.Write(&header, sizeof(header));
  output.Restart();
  ForEachArray(layout, [&](size_t layer, CacheArray array) {
    const BlockHeader block = MakeBlockHeader(cache, layer, array);
    output.Write(&block, sizeof(block));
    ForEachRun(cache, layer, array,
               [&](const std::byte* data, size_t size) { output.WriteMemory(data, size); });
    output.EndBlock();
  });
}

std::unique_ptr<SequenceCache> ImportSequence(CacheStore& store, uint64_t fingerprint,
                                              int64_t context_limit, const ls_reader& reader) {
  Input input(reader, store.device);
  Header header;
  input.Read(&header, sizeof(header));
  input.Restart();
  CheckHeader(header, store, fingerprint, context_limit);

  auto cache = std::make_unique<SequenceCache>(store);
  cache->Occupy(static_cast<int64_t>(header.position));
  ForEachArray(store.layout, [&](size_t layer, CacheArray array) {
    const BlockHeader expected = MakeBlockHeader(*cache, layer, array);
    BlockHeader block;
    input.Read(&block, sizeof(block));
    const bool fits = block.layer == expected.layer && block.array == expected.array &&
                      block.size == expected.size;
    if (fits) {
      ForEachRun(*cache, layer, array,
                 [&](std::byte* data, size_t size) { input.ReadMemory(data, size); });
    }
    if (!fits || !input.EndBlock()) {
      throw BackendError(LS_DATA_LOSS, "snapshot: layer " + std::to_string(layer) +
                                           " is damaged: its checksum does not match its contents");
    }
  });
  return cache;
}

}  // namespace longstream
