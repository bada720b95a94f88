// The values of a GGUF file's metadata.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_VALUE_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// The types of values, with their numbers in the file.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Bytes of an element; 0 for strings, for arrays and for numbers that name no type.
uint64_t SizeOf(GgufType type);

// A value, or a list of values of one type. Points into the bytes of the file's header, which must
// outlive it. The reader of the header has checked that the elements are there.
struct GgufValue {
  GgufType type = GgufType::kUint8;  // of a value or of each element; never kArray
  bool is_array = false;
  uint64_t count = 1;  // of elements
  // The elements as they are stored. A single string has its text here; in an array each string has
  // its length before it (u64).
  std::span<const std::byte> bytes;

  // The value if it is a single one of the right type; otherwise nullopt. All integer types count
  // as integers, and every integer is a number.
  std::optional<int64_t> Integer() const;
  std::optional<double> Number() const;
  std::optional<bool> Bool() const;
  std::optional<std::string_view> String() const;

  // The elements of an array; nullopt if it is no array of the right type. Integers and Bools also
  // return nullopt if there are more than `most` elements, so that memory is bounded.
  std::optional<std::vector<int64_t>> Integers(uint64_t most) const;
  std::optional<std::vector<bool>> Bools(uint64_t most) const;
  // [count] single-precision numbers.
  std::optional<std::vector<float>> Floats() const;
  std::optional<std::vector<std::string_view>> Strings() const;

  // A single number as JSON text: the shortest decimal number that a reader converts to the same
  // number of this type. So 1e-6, which is stored as f32, is 1e-06 and not 9.99999997e-07. nullopt:
  // no number, or no finite one.
  std::optional<std::string> NumberText() const;

  // For error sentences: the value, cut if it is long.
  std::string Found() const;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_VALUE_H_
