// A sequence as bytes, with the fingerprint of its model and a checksum.
#ifndef LONGSTREAM_BACKENDS_MINIMAL_SNAPSHOT_H_
#define LONGSTREAM_BACKENDS_MINIMAL_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "backends/api/plugin.h"
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

// A snapshot that arrives in pieces.
class PartialSnapshot {
 public:
  // The model and the position of the snapshot that is expected.
  PartialSnapshot(uint64_t fingerprint, uint64_t position)
      : fingerprint_(fingerprint), position_(position) {}

  // Throws Failure, then and ever after.
  void Add(const char* data, size_t size) {
    try {
      Append(data, size);
    } catch (const Failure& failure) {
      failure_ = failure;
      throw;
    }
  }

  // Throws Failure if bytes are missing or an Add has failed.
  const State& CompleteState() const {
    if (failure_.code != LS_OK) throw Failure(failure_);
    Require(size_ == sizeof(Snapshot), LS_DATA_LOSS, "the fixed block ends early");
    return snapshot_.state;
  }

 private:
  void Append(const char* data, size_t size) {
    if (failure_.code != LS_OK) throw Failure(failure_);
    Require(size <= sizeof(Snapshot) - size_, LS_DATA_LOSS, "bytes behind the fixed block");
    if (size > 0) std::memcpy(reinterpret_cast<char*>(&snapshot_) + size_, data, size);
    size_ += size;
    if (size_ < sizeof(Snapshot)) return;
    Require(!IsDamaged(snapshot_), LS_DATA_LOSS, "the segment is damaged: its checksum is wrong");
    Require(snapshot_.fingerprint == fingerprint_, LS_FAILED_PRECONDITION,
            "the segment is of another model");
    Require(snapshot_.state.position == position_, LS_INVALID_ARGUMENT,
            "the fixed block is of position " + std::to_string(snapshot_.state.position) +
                ", expected " + std::to_string(position_));
  }

  const uint64_t fingerprint_;
  const uint64_t position_;
  Snapshot snapshot_;
  size_t size_ = 0;  // bytes of snapshot_ so far
  Failure failure_{LS_OK, ""};
};

}  // namespace longstream::toy

#endif  // LONGSTREAM_BACKENDS_MINIMAL_SNAPSHOT_H_
