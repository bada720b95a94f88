// A sequence as bytes, with the fingerprint of its model and a checksum.
#ifndef LONGSTREAM_BACKENDS_MINIMAL_SNAPSHOT_H_
#define LONGSTREAM_BACKENDS_MINIMAL_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/minimal/toy_model.h"

namespace longstream::toy {

struct Snapshot {
  uint64_t magic = 0x31304e494d534cu;  // "LSMIN01"
  uint64_t fingerprint = 0;            // of the model
  State state;
  uint64_t checksum = 0;  // CRC-32C of the fields above
};
static_assert(std::has_unique_object_representations_v<Snapshot>, "no padding is written");

inline uint64_t Checksum(const Snapshot& snapshot) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&snapshot);
  uint32_t crc = ~0u;
  for (size_t i = 0; i < offsetof(Snapshot, checksum); ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

inline bool IsDamaged(const Snapshot& snapshot) {
  return snapshot.magic != Snapshot{}.magic || snapshot.checksum != Checksum(snapshot);
}

}  // namespace longstream::toy

#endif  // LONGSTREAM_BACKENDS_MINIMAL_SNAPSHOT_H_
