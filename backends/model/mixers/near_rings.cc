// Rebuilds near rings block by block.
#include "backends/model/mixers/near_rings.h"

#include <algorithm>
#include <numeric>

#include "backends/caches/cache_store.h"

namespace longstream {
namespace {

// A ring is rebuilt in blocks of this many positions, each with its own rotary table.
constexpr int64_t kBlock = 256;

}  // namespace

NearRings::NearRings(const CacheLayout& layout, const PositionTables& tables, const OpTable& ops,
                     Device& device)
    : tables_(tables), ops_(ops), arguments_(device) {
  int32_t head_dim = 0;
  for (const LayerCacheLayout& layer : layout.layers) {
    if (layer.near) head_dim = std::max(head_dim, layer.near->head_dim);
  }
  if (head_dim == 0) return;
  positions_.resize(kBlock);
  rope_ =
      DeviceMemory(device, static_cast<size_t>(kBlock * head_dim) * sizeof(float), "near rings");
}

void NearRings::Prepare(size_t num_pages) {
  if (positions_.empty()) return;
  arguments_.Reserve(TransferBytes(positions_.size(), sizeof(int64_t)) +
                     TransferBytes(num_pages, sizeof(int32_t)));
}

OpStatus NearRings::Rebuild(Stream stream, SequenceCache& cache) {
  if (!cache.near_rings_stale()) return OpStatus::kOk;
  Prepare(cache.page_table().size());
  const CacheLayout& layout = cache.store().layout;
  for (size_t layer = 0; layer < layout.layers.size(); ++layer) {
    if (layout.layers[layer].near) RebuildLayer(stream, cache, layer);
  }
  if (stream.ok()) cache.NearRingsRebuilt();
  return stream.status;
}

void NearRings::RebuildLayer(Stream& stream, const SequenceCache& cache, size_t layer) {
  CacheStore& caches = cache.store();
  auto* rope = reinterpret_cast<float*>(rope_.data());
  const RingCache ring = caches.slots.near_ring(layer);
  for (int64_t begin = std::max<int64_t>(cache.position() - ring.slots, 0);
       begin < cache.position(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, cache.position());
    std::iota(positions_.begin(), positions_.end(), begin);
    arguments_.Begin();
    const int64_t* positions = arguments_.Add(positions_);
    const int32_t* pages = arguments_.Add(cache.page_table());
    arguments_.Upload();
    tables_.ComputeNear(ops_, stream, layer, positions, end - begin, rope);
    ops_.ring_rebuild(stream, {.cache = caches.pages.layer(layer),
                               .page_table = pages,
                               .ring = ring,
                               .slot = cache.slot(),
                               .begin = begin,
                               .end = end,
                               .rope = rope});
    stream.Fail(caches.device.Synchronize());
  }
}

}  // namespace longstream
