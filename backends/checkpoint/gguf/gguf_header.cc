// Reads the header of a GGUF file.
#include "backends/checkpoint/gguf/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr uint64_t kMaxValues = uint64_t{1} << 16;
constexpr uint64_t kMaxTensors = uint64_t{1} << 16;
constexpr uint32_t kMaxExtents = 4;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kUsualAlignment = 32;
constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

constexpr GgufTensorType kTensorTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};

[[noreturn]] void Damaged(const std::string& path, const std::string& problem) {
  throw BackendError(LS_DATA_LOSS, path + ": " + problem);
}

[[noreturn]] void Unsupported(const std::string& path, const std::string& problem) {
  throw BackendError(LS_UNIMPLEMENTED, path + ": " + problem);
}

// Thrown if the header goes on behind the bytes at hand.
struct NeedsMore {};

// Takes one item after another from the bytes at hand.
class Cursor {
 public:
  Cursor(std::span<const std::byte> front, uint64_t file_bytes, const std::string& path)
      : front_(front), file_bytes_(file_bytes), path_(path) {}

  uint64_t at() const { return at_; }

  // The next `count` bytes. `what` names them in the error sentence.
  std::span<const std::byte> Take(uint64_t count, std::string_view what) {
    if (count > file_bytes_ - at_) {
      Damaged(path_, std::string(what) + " takes " + std::to_string(count) + " bytes at byte " +
                         std::to_string(at_) + ", found a file of " + std::to_string(file_bytes_) +
                         " bytes");
    }
    if (count > front_.size() - at_) throw NeedsMore();
    const std::span<const std::byte> bytes = front_.subspan(at_, count);
    at_ += count;
    return bytes;
  }

  template <typename T>
  T Number(std::string_view what) {
    T number;
    std::memcpy(&number, Take(sizeof(T), what).data(), sizeof(T));
    return number;
  }

  std::span<const std::byte> StringBytes(std::string_view what) {
    const auto length = Number<uint64_t>(what);
    return Take(length, what);
  }

  std::string String(std::string_view what) {
    const std::span<const std::byte> bytes = StringBytes(what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // All bytes from `begin` to here.
  std::span<const std::byte> Since(uint64_t begin) const {
    return front_.subspan(begin, at_ - begin);
  }

 private:
  const std::span<const std::byte> front_;
  const uint64_t file_bytes_;
  const std::string& path_;
  uint64_t at_ = 0;  // never beyond front_
};

// A type of value that may be in an array: all but arrays.
GgufType CheckedType(uint32_t number, const std::string& key, const std::string& path) {
  const auto type = static_cast<GgufType>(number);
  if (type == GgufType::kString || SizeOf(type) > 0) return type;
  const std::string found =
      type == GgufType::kArray ? "an array of arrays" : "a value of type " + std::to_string(number);
  Unsupported(path, Quoted(key) + " has " + found + ", expected a type from 0 to 12");
}

GgufValue ReadValue(Cursor* cursor, const std::string& key, const std::string& path) {
  const std::string what = "the value of " + Quoted(key);
  GgufValue value;
  auto type = cursor->Number<uint32_t>(what);
  value.is_array = static_cast<GgufType>(type) == GgufType::kArray;
  if (value.is_array) {
    type = cursor->Number<uint32_t>(what);
    value.count = cursor->Number<uint64_t>(what);
  }
  value.type = CheckedType(type, key, path);
  if (value.type != GgufType::kString) {
    const uint64_t size = SizeOf(value.type);
    if (value.count > UINT64_MAX / size) {
      Damaged(path, what + " has " + std::to_string(value.count) + " elements");
    }
    value.bytes = cursor->Take(value.count * size, what);
  } else if (!value.is_array) {
    value.bytes = cursor->StringBytes(what);
  } else {
    const uint64_t begin = cursor->at();
    for (uint64_t i = 0; i < value.count; ++i) cursor->StringBytes(what);
    value.bytes = cursor->Since(begin);
  }
  return value;
}

uint64_t AlignmentOf(const GgufHeader& header, const std::string& path) {
  const auto found = header.metadata.find("general.alignment");
  if (found == header.metadata.end()) return kUsualAlignment;
  const int64_t alignment = found->second.Integer().value_or(0);
  if (alignment < 1 || alignment > static_cast<int64_t>(kMaxAlignment) ||
      !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    Damaged(path, "general.alignment must be a power of two up to " +
                      std::to_string(kMaxAlignment) + ", found " + found->second.Found());
  }
  return static_cast<uint64_t>(alignment);
}

// Reads the entry of one tensor. Its offset still counts from the beginning of the data.
GgufTensor ReadTensor(Cursor* cursor, const std::string& path) {
  GgufTensor tensor;
  tensor.name = cursor->String("the name of a tensor");
  const std::string what = "tensor " + Quoted(tensor.name);
  const auto extents = cursor->Number<uint32_t>(what);
  if (extents > kMaxExtents) {
    Damaged(path, what + " has " + std::to_string(extents) + " extents, expected at most " +
                      std::to_string(kMaxExtents));
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < extents; ++i) {
    const auto extent = cursor->Number<uint64_t>(what);
    if (extent == 0 || extent > static_cast<uint64_t>(INT64_MAX) / elements) {
      Damaged(path, what + " has an extent of " + std::to_string(extent) +
                        ", expected at least 1 and fewer than 2^63 elements");
    }
    elements *= extent;
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(extent));
  }
  const auto id = cursor->Number<uint32_t>(what);
  tensor.offset = cursor->Number<uint64_t>(what);
  tensor.type = FindGgufTensorType(id);
  if (tensor.type == nullptr) {
    Unsupported(path, what + " has the type " + std::to_string(id) + ", which is unknown");
  }
  const auto row = static_cast<uint64_t>(tensor.shape.empty() ? 1 : tensor.shape.back());
  if (row % tensor.type->elements != 0) {
    Damaged(path, what + " of type " + std::string(tensor.type->name) + " has rows of " +
                      std::to_string(row) + " elements, expected a multiple of " +
                      std::to_string(tensor.type->elements));
  }
  const uint64_t blocks = elements / tensor.type->elements;
  if (blocks > static_cast<uint64_t>(INT64_MAX) / tensor.type->bytes) {
    Damaged(path, what + " has " + std::to_string(elements) + " elements, expected fewer");
  }
  tensor.num_bytes = blocks * tensor.type->bytes;
  return tensor;
}

// Makes the tensors' offsets count from the beginning of the file, and sorts them. Checks that they
// lie in the data and do not overlap.
void Place(uint64_t file_bytes, uint64_t alignment, const std::string& path, GgufHeader* header) {
  if (header->data_begin > file_bytes && !header->tensors.empty()) {
    Damaged(path, "the data begins at byte " + std::to_string(header->data_begin) +
                      ", found a file of " + std::to_string(file_bytes) + " bytes");
  }
  const uint64_t data_bytes = file_bytes - std::min(file_bytes, header->data_begin);
  for (GgufTensor& tensor : header->tensors) {
    const std::string what = "tensor " + Quoted(tensor.name);
    if (tensor.offset % alignment != 0) {
      Damaged(path, what + " begins at byte " + std::to_string(tensor.offset) +
                        " of the data, expected a multiple of " + std::to_string(alignment));
    }
    if (tensor.offset > data_bytes || tensor.num_bytes > data_bytes - tensor.offset) {
      Damaged(path, what + " has " + std::to_string(tensor.num_bytes) + " bytes at byte " +
                        std::to_string(tensor.offset) + " of the data, found " +
                        std::to_string(data_bytes) + " bytes of data");
    }
    tensor.offset += header->data_begin;
  }
  std::sort(header->tensors.begin(), header->tensors.end(),
            [](const GgufTensor& a, const GgufTensor& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < header->tensors.size(); ++i) {
    const GgufTensor& before = header->tensors[i - 1];
    const GgufTensor& tensor = header->tensors[i];
    if (before.offset + before.num_bytes <= tensor.offset) continue;
    Damaged(path, "tensor " + Quoted(tensor.name) + " overlaps tensor " + Quoted(before.name));
  }
}

// Reads the magic and the version.
void ReadVersion(Cursor* cursor, std::span<const std::byte> front, const std::string& path) {
  const std::string_view begin(reinterpret_cast<const char*>(front.data()), front.size());
  if (begin.starts_with(kLfsPointer)) {
    Damaged(path, "expected the file itself, found a pointer of Git LFS to it");
  }
  const std::span<const std::byte> magic = cursor->Take(kMagic.size(), "the magic");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    Damaged(path, "is no GGUF file: expected the first bytes " + Quoted(kMagic) + ", found " +
                      Quoted(begin.substr(0, kMagic.size())));
  }
  const auto version = cursor->Number<uint32_t>("the version");
  if (version == 2 || version == 3) return;
  const bool is_swapped = version != 0 && (version & 0xffffu) == 0;
  Unsupported(path, is_swapped ? std::string("is big-endian, expected a little-endian file")
                               : "has version " + std::to_string(version) + ", expected 2 or 3");
}

GgufHeader Parse(std::span<const std::byte> front, uint64_t file_bytes, const std::string& path) {
  Cursor cursor(front, file_bytes, path);
  ReadVersion(&cursor, front, path);
  const auto num_tensors = cursor.Number<uint64_t>("the number of tensors");
  const auto num_values = cursor.Number<uint64_t>("the number of metadata values");
  if (num_tensors > kMaxTensors || num_values > kMaxValues) {
    Damaged(path, std::to_string(num_tensors) + " tensors and " + std::to_string(num_values) +
                      " metadata values, expected at most " + std::to_string(kMaxTensors) +
                      " and " + std::to_string(kMaxValues));
  }
  GgufHeader header;
  for (uint64_t i = 0; i < num_values; ++i) {
    std::string key = cursor.String("the key of a metadata value");
    const GgufValue value = ReadValue(&cursor, key, path);
    const auto [place, is_new] = header.metadata.emplace(std::move(key), value);
    if (!is_new) Damaged(path, "the key " + Quoted(place->first) + " is there twice");
  }
  std::set<std::string, std::less<>> names;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    header.tensors.push_back(ReadTensor(&cursor, path));
    if (names.insert(header.tensors.back().name).second) continue;
    Damaged(path, "tensor " + Quoted(header.tensors.back().name) + " is there twice");
  }
  const uint64_t alignment = AlignmentOf(header, path);
  header.data_begin = (cursor.at() + alignment - 1) / alignment * alignment;
  Place(file_bytes, alignment, path, &header);
  return header;
}

// Leaves no memory behind the header. The values point into the bytes, so they move with them.
void Shrink(GgufFront* front) {
  const size_t size = std::min<uint64_t>(front->bytes.size(), front->header.data_begin);
  std::vector<std::byte> exact(front->bytes.begin(),
                               front->bytes.begin() + static_cast<ptrdiff_t>(size));
  for (auto& [key, value] : front->header.metadata) {
    const std::byte* const place = exact.data() + (value.bytes.data() - front->bytes.data());
    value.bytes = {place, value.bytes.size()};
  }
  front->bytes = std::move(exact);
}

}  // namespace

const GgufTensorType* FindGgufTensorType(uint32_t id) {
  const auto* const found =
      std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                   [id](const GgufTensorType& type) { return type.id == id; });
  return found == std::end(kTensorTypes) ? nullptr : found;
}

std::optional<GgufHeader> ParseGguf(std::span<const std::byte> front, uint64_t file_bytes,
                                    const std::string& path) {
  try {
    return Parse(front, file_bytes, path);
  } catch (const NeedsMore&) {
    return std::nullopt;
  }
}

GgufFront ReadGgufFront(uint64_t file_bytes, const std::string& path,
                        const std::function<void(uint64_t, std::span<std::byte>)>& read) {
  const uint64_t most = std::min(file_bytes, kMaxGgufHeaderBytes);
  GgufFront front;
  for (uint64_t size = uint64_t{1} << 20;; size *= 2) {
    const size_t had = front.bytes.size();
    front.bytes.resize(std::min(size, most));
    read(had, std::span(front.bytes).subspan(had));
    std::optional<GgufHeader> header = ParseGguf(front.bytes, file_bytes, path);
    if (header) {
      front.header = *std::move(header);
      Shrink(&front);
      return front;
    }
    if (front.bytes.size() == most) {
      Damaged(path, "the header has more than " + std::to_string(kMaxGgufHeaderBytes) + " bytes");
    }
  }
}

}  // namespace longstream
