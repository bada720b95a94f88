// From a model's layers to the layout of its caches.
#include "backends/caches/cache_layout.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "backends/errors/error.h"

namespace longstream {
namespace {

// The most bytes of one array of a layer. No machine holds more, and sums over the layers stay
// below 2^63.
constexpr int64_t kMaxArrayBytes = int64_t{1} << 44;

// The product of an array's extents and the size of an element.
int64_t ArrayBytes(std::initializer_list<int64_t> factors) {
  int64_t bytes = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > kMaxArrayBytes) {
      throw BackendError(LS_INVALID_ARGUMENT, "caches: one layer of one sequence needs more than " +
                                                  std::to_string(kMaxArrayBytes) +
                                                  " bytes: its window is too large");
    }
  }
  return bytes;
}

int64_t RingBytes(const RingLayout& ring, int32_t num_heads, DType type) {
  return ArrayBytes({num_heads, ring.slots, ring.head_dim, static_cast<int64_t>(SizeOf(type))});
}

// Places arrays one after another in a slot.
class SlotPlanner {
 public:
  // Places `bytes` bytes and returns their offset.
  int64_t Place(int64_t bytes) {
    const int64_t offset = end_;
    end_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

RingLayout Ring(const MixerSpec& mixer, int32_t window, int32_t value_slices) {
  return {window, window + kPrefillGrid, mixer.num_kv_heads, mixer.head_dim, value_slices};
}

void PlaceWindow(const MixerSpec& mixer, DType type, SlotPlanner& slot, LayerCacheLayout* layer) {
  RingLayout& ring = layer->ring.emplace(Ring(mixer, mixer.window, mixer.value_slices()));
  const int64_t key_bytes = RingBytes(ring, ring.num_kv_heads, type);
  const int64_t value_bytes = RingBytes(ring, ring.num_value_heads(), type);
  ring.keys = slot.Place(key_bytes);
  ring.values = slot.Place(value_bytes);
  layer->bytes_fixed = static_cast<uint64_t>(key_bytes + value_bytes);
}

void PlaceNear(const MixerSpec& mixer, DType type, SlotPlanner& slot, LayerCacheLayout* layer) {
  RingLayout& near = layer->near.emplace(Ring(mixer, mixer.rerope_window, 0));
  const int64_t bytes = RingBytes(near, near.num_kv_heads, type);
  near.keys = slot.Place(bytes);
  layer->bytes_fixed = static_cast<uint64_t>(bytes);
}

void PlaceRecurrent(const MixerSpec& mixer, SlotPlanner& slot, LayerCacheLayout* layer) {
  RecurrentLayout& memory = layer->recurrent.emplace();
  memory.num_heads = mixer.num_heads;
  memory.num_kv_heads = mixer.num_kv_heads;
  memory.key_dim = mixer.head_dim;
  memory.value_dim = mixer.value_dim;
  memory.gated = mixer.kind == MixerKind::kGatedRnn;
  const auto place = [&](int64_t elements) {
    const int64_t bytes = ArrayBytes({elements, static_cast<int64_t>(sizeof(float))});
    layer->bytes_fixed += static_cast<uint64_t>(bytes);
    return slot.Place(bytes);
  };
  memory.state = place(memory.state_elements());
  memory.keys = place(kPrefillGrid * memory.key_row());
  memory.values = place(kPrefillGrid * memory.value_row());
  memory.gates = place(kPrefillGrid * memory.gate_row());
}

// Computes the sums over all layers after each layer is placed.
void Total(CacheLayout* layout) {
  layout->min_ring_slots = layout->min_near_slots = std::numeric_limits<int64_t>::max();
  for (const LayerCacheLayout& layer : layout->layers) {
    layout->bytes_per_token += layer.bytes_per_token;
    (layer.recurrent ? layout->state_bytes : layout->ring_bytes) += layer.bytes_fixed;
    if (!layer.near) layout->rollback_bytes += layer.bytes_fixed;
    if (layer.near) {
      layout->has_near_rings = true;
      layout->min_near_slots = std::min<int64_t>(layout->min_near_slots, layer.near->slots);
    }
    if (layer.ring) {
      layout->has_rings = true;
      layout->min_ring_slots = std::min<int64_t>(layout->min_ring_slots, layer.ring->slots);
    }
    layout->has_states = layout->has_states || layer.recurrent.has_value();
  }
  layout->page_bytes = layout->bytes_per_token * kPageTokens;
}

}  // namespace

CacheLayout MakeCacheLayout(const ModelSpec& spec, DType type) {
  CacheLayout layout;
  layout.page_type = type;
  layout.ring_type = type == DType::kI8 ? DType::kBF16 : type;
  layout.layers.resize(spec.layers.size());
  SlotPlanner slot;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const MixerSpec& mixer = spec.layers[i];
    if (mixer.kind == MixerKind::kWindow)
      PlaceWindow(mixer, layout.ring_type, slot, &layout.layers[i]);
    if (mixer.recurrent()) PlaceRecurrent(mixer, slot, &layout.layers[i]);
  }
  layout.rollback_end = slot.end();
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const MixerSpec& mixer = spec.layers[i];
    LayerCacheLayout& layer = layout.layers[i];
    if (mixer.kind != MixerKind::kFull) continue;
    layer.paged = PagedLayout{mixer.num_kv_heads, mixer.head_dim, mixer.value_slices()};
    const int64_t bytes = layer.paged->key_bytes(type) + layer.paged->value_bytes(type);
    layer.bytes_per_token = static_cast<uint64_t>(bytes) / kPageTokens;
    if (mixer.rerope()) PlaceNear(mixer, layout.ring_type, slot, &layer);
  }
  layout.slot_stride = slot.end();
  Total(&layout);
  return layout;
}

}  // namespace longstream
