// Reads the elements of protobuf's wire format from a range of bytes.
#ifndef LONGSTREAM_SERVICE_WIRE_WIRE_READER_H_
#define LONGSTREAM_SERVICE_WIRE_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace longstream {

// How the value of a field is encoded. The numbers are those of the wire format.
enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  // a length, then as many bytes
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

struct WireTag {
  int number = 0;
  WireType type = WireType::kVarint;
};

// Each function returns false if the bytes are not such an element. position() then is where the
// element begins. Accepts what protobuf's own parser accepts. Not thread-safe.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  bool AtEnd() const { return position_ == bytes_.size(); }
  size_t position() const { return position_; }  // from the beginning of the range

  bool ReadTag(WireTag* tag);
  bool ReadVarint(uint64_t* value);
  // Little-endian.
  bool ReadFixed32(uint64_t* value) { return ReadFixed(4, value); }
  bool ReadFixed64(uint64_t* value) { return ReadFixed(8, value); }
  // Reads a length and as many bytes, which stay in the range.
  bool ReadBytes(std::string_view* bytes);
  // Skips the value of a field. `depth`: how many levels of groups it may have.
  bool SkipValue(const WireTag& tag, int depth);

 private:
  // Reads a varint of at most `max_bytes` bytes.
  bool ReadVarint(size_t max_bytes, uint64_t* value);
  bool ReadFixed(size_t num_bytes, uint64_t* value);

  const std::string_view bytes_;
  size_t position_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_WIRE_WIRE_READER_H_
