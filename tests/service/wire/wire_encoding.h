// Encodes protobuf's wire format by hand, so that tests can send what no protobuf library writes.
#ifndef LONGSTREAM_TESTS_SERVICE_WIRE_WIRE_ENCODING_H_
#define LONGSTREAM_TESTS_SERVICE_WIRE_WIRE_ENCODING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longstream::wire {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// `type`: 0 varint, 1 eight bytes, 2 bytes, 3 and 4 the beginning and end of a group, 5 four bytes.
inline std::string Tag(int field, int type) {
  return Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

// A field whose value is text, bytes, a message or packed numbers.
inline std::string Bytes(int field, std::string_view value) {
  return Tag(field, 2) + Varint(value.size()) + std::string(value);
}

inline std::string Number(int field, uint64_t value) { return Tag(field, 0) + Varint(value); }

inline std::string Repeat(std::string_view part, size_t times) {
  std::string whole;
  whole.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) whole += part;
  return whole;
}

}  // namespace longstream::wire

#endif  // LONGSTREAM_TESTS_SERVICE_WIRE_WIRE_ENCODING_H_
