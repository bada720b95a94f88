// The places of the layers' caches.
#include "backends/caches/cache_layout.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

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

// Places a ring and returns its bytes.
uint64_t Place(DType type, SlotPlanner& slot, RingLayout* ring) {
  const int64_t key_bytes = RingBytes(*ring, ring->num_kv_heads, type);
  const int64_t value_bytes = RingBytes(*ring, ring->num_value_heads(), type);
  ring->keys = slot.Place(key_bytes);
  ring->values = slot.Place(value_bytes);
  return static_cast<uint64_t>(key_bytes + value_bytes);
}

// Places the memory of a recurrence and returns its bytes.
uint64_t Place(SlotPlanner& slot, RecurrentLayout* memory) {
  uint64_t sum = 0;
  const auto place = [&](int64_t elements) {
    const int64_t bytes = ArrayBytes({elements, static_cast<int64_t>(sizeof(float))});
    sum += static_cast<uint64_t>(bytes);
    return slot.Place(bytes);
  };
  memory->state = place(memory->state_elements());
  memory->keys = place(kPrefillGrid * memory->key_row());
  memory->values = place(kPrefillGrid * memory->value_row());
  memory->gates = place(kPrefillGrid * memory->gate_row());
  return sum;
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

CacheLayout PlaceCaches(std::vector<LayerCacheLayout> layers, DType type) {
  CacheLayout layout;
  layout.page_type = type;
  layout.ring_type = type == DType::kI8 ? DType::kBF16 : type;
  layout.layers = std::move(layers);
  SlotPlanner slot;
  for (LayerCacheLayout& layer : layout.layers) {
    if (layer.ring) layer.bytes_fixed = Place(layout.ring_type, slot, &*layer.ring);
    if (layer.recurrent) layer.bytes_fixed = Place(slot, &*layer.recurrent);
  }
  layout.rollback_end = slot.end();
  for (LayerCacheLayout& layer : layout.layers) {
    if (!layer.paged) continue;
    const int64_t bytes = layer.paged->key_bytes(type) + layer.paged->value_bytes(type);
    layer.bytes_per_token = static_cast<uint64_t>(bytes) / kPageTokens;
    if (layer.near) layer.bytes_fixed = Place(layout.ring_type, slot, &*layer.near);
  }
  layout.slot_stride = slot.end();
  Total(&layout);
  return layout;
}

}  // namespace longstream
