// The values of a GGUF file's metadata.
#include "backends/checkpoint/gguf/gguf_value.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "backends/errors/quote.h"

namespace longstream {
namespace {

template <typename T>
T ElementAt(const GgufValue& value, uint64_t index) {
  T element;
  std::memcpy(&element, value.bytes.data() + index * sizeof(T), sizeof(T));
  return element;
}

// The integer at `index`; nullopt if the type is no integer, or the integer exceeds int64_t.
std::optional<int64_t> IntegerAt(const GgufValue& value, uint64_t index) {
  switch (value.type) {
    case GgufType::kUint8:
      return ElementAt<uint8_t>(value, index);
    case GgufType::kInt8:
      return ElementAt<int8_t>(value, index);
    case GgufType::kUint16:
      return ElementAt<uint16_t>(value, index);
    case GgufType::kInt16:
      return ElementAt<int16_t>(value, index);
    case GgufType::kUint32:
      return ElementAt<uint32_t>(value, index);
    case GgufType::kInt32:
      return ElementAt<int32_t>(value, index);
    case GgufType::kInt64:
      return ElementAt<int64_t>(value, index);
    case GgufType::kUint64: {
      const auto number = ElementAt<uint64_t>(value, index);
      if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(number);
    }
    case GgufType::kFloat32:
    case GgufType::kFloat64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return std::nullopt;
}

template <typename T>
std::string ShortestText(T number) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  return error == std::errc() ? std::string(text, end) : std::string();
}

}  // namespace

uint64_t SizeOf(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

std::optional<int64_t> GgufValue::Integer() const {
  if (is_array) return std::nullopt;
  return IntegerAt(*this, 0);
}

std::optional<double> GgufValue::Number() const {
  if (is_array) return std::nullopt;
  if (type == GgufType::kFloat32) return double{ElementAt<float>(*this, 0)};
  if (type == GgufType::kFloat64) return ElementAt<double>(*this, 0);
  const std::optional<int64_t> integer = Integer();
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

std::optional<bool> GgufValue::Bool() const {
  if (is_array || type != GgufType::kBool) return std::nullopt;
  return ElementAt<uint8_t>(*this, 0) != 0;
}

std::optional<std::string_view> GgufValue::String() const {
  if (is_array || type != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<std::vector<int64_t>> GgufValue::Integers(uint64_t most) const {
  if (!is_array || count > most) return std::nullopt;
  std::vector<int64_t> integers;
  integers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<int64_t> integer = IntegerAt(*this, i);
    if (!integer) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

std::optional<std::vector<bool>> GgufValue::Bools(uint64_t most) const {
  if (!is_array || type != GgufType::kBool || count > most) return std::nullopt;
  std::vector<bool> bools;
  bools.reserve(count);
  for (uint64_t i = 0; i < count; ++i) bools.push_back(ElementAt<uint8_t>(*this, i) != 0);
  return bools;
}

std::optional<std::vector<float>> GgufValue::Floats() const {
  if (!is_array || type != GgufType::kFloat32) return std::nullopt;
  std::vector<float> floats(count);
  if (count > 0) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::optional<std::vector<std::string_view>> GgufValue::Strings() const {
  if (!is_array || type != GgufType::kString) return std::nullopt;
  std::vector<std::string_view> strings;
  strings.reserve(count);
  const char* next = reinterpret_cast<const char*>(bytes.data());
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, next, sizeof(length));
    next += sizeof(length);
    strings.emplace_back(next, length);
    next += length;
  }
  return strings;
}

std::optional<std::string> GgufValue::NumberText() const {
  const std::optional<double> number = Number();
  if (!number || !std::isfinite(*number)) return std::nullopt;
  if (type == GgufType::kFloat32) return ShortestText(static_cast<float>(*number));
  if (type == GgufType::kFloat64) return ShortestText(*number);
  return std::to_string(*Integer());
}

std::string GgufValue::Found() const {
  if (is_array) return "a list of " + std::to_string(count);
  if (const auto text = String()) return Quoted(*text);
  if (const auto flag = Bool()) return *flag ? "true" : "false";
  if (const auto number = NumberText()) return *number;
  return type == GgufType::kUint64 ? std::to_string(ElementAt<uint64_t>(*this, 0))
                                   : "no finite number";
}

}  // namespace longstream
