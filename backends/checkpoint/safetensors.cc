// Reads the header of a safetensors file. It handles one parser event at a time, so that memory and
// time are bounded by the header's contents. It checks the whole header before a caller sees a
// tensor.
#include "backends/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "backends/checkpoint/json.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's reference reader
constexpr uint64_t kMaxExtent = INT64_MAX;
constexpr size_t kMaxRank = 16;

struct ElementType {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> weight_type;
};

constexpr ElementType kElementTypes[] = {
    {"BOOL", 1, {}},
    {"U8", 1, {}},
    {"I8", 1, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"F16", 2, DType::kF16},
    {"I32", 4, {}},
    {"BF16", 2, DType::kBF16},
    {"U32", 4, {}},
    {"I64", 8, {}},
    {"F32", 4, DType::kF32},
    {"U64", 8, {}},
    {"F64", 8, {}},
    {"C64", 8, {}},
};

const ElementType* FindElementType(std::string_view name) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

// One entry of the header, not yet checked.
struct Entry {
  std::string name;
  std::string type_name;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_type = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Receives the parser's events. It accepts this grammar:
//   { "__metadata__": { string: string, ... },
//     name: { "dtype": string, "shape": [uint, ...], "data_offsets": [uint, uint] }, ... }
// A method returns false to stop the parser; then `problem` has the reason.
class HeaderReader : public Json::json_sax_t {
 public:
  std::vector<Entry> entries;
  std::string problem;

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        place_ = metadata_ ? Place::kMetadata : Place::kEntry;
        return true;
      default:
        return Unexpected("object");
    }
  }

  bool key(std::string& name) override {
    if (place_ == Place::kTop) {
      if (!names_.insert(name).second)
        return Refuse("the tensor " + Quoted(name) + " is there twice");
      metadata_ = name == "__metadata__";
      if (!metadata_) entries.emplace_back().name = name;
    } else if (place_ == Place::kEntry) {
      return EntryKey(name);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      const Entry& entry = entries.back();
      if (!entry.has_type) return Refuse("dtype is missing" + OfTensor());
      if (!entry.has_shape) return Refuse("shape is missing" + OfTensor());
      if (!entry.has_offsets) return Refuse("data_offsets is missing" + OfTensor());
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kEntry || (field_ != Field::kShape && field_ != Field::kOffsets)) {
      return Unexpected("list");
    }
    place_ = Place::kList;
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    if (field_ == Field::kOffsets && entries.back().offsets.size() != 2) {
      return Refuse("fewer than 2 data_offsets" + OfTensor());
    }
    field_ = Field::kNone;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::kList || value > kMaxExtent) {
      return Unexpected("number " + std::to_string(value));
    }
    Entry& entry = entries.back();
    if (field_ == Field::kOffsets) {
      entry.offsets.push_back(value);
    } else if (entry.shape.size() == kMaxRank) {
      return Refuse("more than " + std::to_string(kMaxRank) + " dimensions" + OfTensor());
    } else {
      entry.shape.push_back(value);
    }
    // Refuses a third offset at once, because the list might be endless.
    return entry.offsets.size() <= 2 || Refuse("more than 2 data_offsets" + OfTensor());
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kEntry || field_ != Field::kType) return Unexpected("string");
    entries.back().type_name = value;
    field_ = Field::kNone;
    return true;
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("boolean"); }
  bool number_integer(int64_t value) override { return Unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override {
    return Unexpected("number " + Shortened(text));
  }
  bool binary(Json::binary_t&) override { return Unexpected("binary data"); }

  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    return Refuse("no valid JSON: " + ParseProblem(error));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kList, kEnd };
  enum class Field { kNone, kType, kShape, kOffsets };

  bool EntryKey(const std::string& name) {
    Entry& entry = entries.back();
    bool* seen = nullptr;
    if (name == "dtype") {
      field_ = Field::kType;
      seen = &entry.has_type;
    } else if (name == "shape") {
      field_ = Field::kShape;
      seen = &entry.has_shape;
    } else if (name == "data_offsets") {
      field_ = Field::kOffsets;
      seen = &entry.has_offsets;
    } else {
      return Refuse("unknown key " + Quoted(name) + OfTensor());
    }
    if (*seen) return Refuse(name + " is there twice" + OfTensor());
    *seen = true;
    return true;
  }

  bool Unexpected(const std::string& what) { return Refuse("unexpected " + what + OfTensor()); }

  bool Refuse(std::string reason) {
    problem = std::move(reason);
    return false;
  }

  std::string OfTensor() const {
    if (metadata_) return " in __metadata__";
    return entries.empty() ? "" : " in tensor " + Quoted(entries.back().name);
  }

  Place place_ = Place::kStart;
  Field field_ = Field::kNone;
  bool metadata_ = false;  // the next value belongs to __metadata__
  std::set<std::string> names_;
};

[[noreturn]] void Damaged(const std::string& path, const std::string& problem) {
  throw BackendError(LS_DATA_LOSS, path + ": " + problem);
}

// A checkpoint that was cloned without Git LFS has such a pointer in place of each large file.
bool IsLfsPointer(std::span<const std::byte> begin) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  static_assert(kBegin.size() <= kSafetensorsBegin);
  return begin.size() >= kBegin.size() &&
         std::memcmp(begin.data(), kBegin.data(), kBegin.size()) == 0;
}

// Makes the tensor of an entry. Checks its bytes against its shape and against the data.
StoredTensor CheckedTensor(Entry& entry, uint64_t data_begin, uint64_t data_bytes,
                           const std::string& path) {
  const std::string tensor = "tensor " + Quoted(entry.name);
  const ElementType* type = FindElementType(entry.type_name);
  if (type == nullptr) Damaged(path, tensor + " has the unknown dtype " + Quoted(entry.type_name));

  StoredTensor stored;
  uint64_t bytes = type->bytes;
  for (const uint64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMaxExtent) {
      Damaged(path, tensor + " has a shape whose bytes exceed 64 bits");
    }
    stored.shape.push_back(static_cast<int64_t>(extent));
  }
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end || end > data_bytes) {
    Damaged(path, tensor + " at bytes [" + std::to_string(begin) + ", " + std::to_string(end) +
                      "), expected a range within the " + std::to_string(data_bytes) +
                      " bytes of data");
  }
  if (end - begin != bytes) {
    Damaged(path, tensor + " of type " + entry.type_name + " and shape " + ShapeText(stored.shape) +
                      " takes " + std::to_string(bytes) + " bytes, found " +
                      std::to_string(end - begin));
  }
  stored.name = std::move(entry.name);
  stored.type_name = std::move(entry.type_name);
  stored.type = type->weight_type;
  stored.offset = data_begin + begin;
  stored.num_bytes = bytes;
  return stored;
}

// The tensors, sorted by the place of their data, must follow one another and end with the file.
void CheckCover(const std::vector<StoredTensor>& tensors, uint64_t data_begin, uint64_t data_bytes,
                const std::string& path) {
  uint64_t next = data_begin;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != next) {
      const char* what = tensor.offset < next ? " overlaps the tensor before it"
                                              : " leaves a gap after the tensor before it";
      Damaged(path, "tensor " + Quoted(tensor.name) + what + ": begins at byte " +
                        std::to_string(tensor.offset - data_begin) + " of the data, expected " +
                        std::to_string(next - data_begin));
    }
    next += tensor.num_bytes;
  }
  if (next - data_begin != data_bytes) {
    Damaged(path, "the tensors end at byte " + std::to_string(next - data_begin) +
                      " of the data, found " + std::to_string(data_bytes) + " bytes");
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path) {
  front_.resize(std::min(stamp().bytes, kSafetensorsBegin));
  Read(0, front_, Executor());
  front_.resize(SafetensorsFrontBytes(front_, stamp().bytes, path));
  Read(0, front_, Executor());
  tensors_ = ParseSafetensors(front_, stamp().bytes, path);
}

uint64_t SafetensorsFrontBytes(std::span<const std::byte> begin, uint64_t file_bytes,
                               const std::string& path) {
  if (file_bytes < kLengthBytes) {
    Damaged(path, "expected a header length of 8 bytes, found a file of " +
                      std::to_string(file_bytes) + " bytes");
  }
  uint64_t length = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(begin[i]) << (8 * i);
  }
  if (IsLfsPointer(begin)) {
    Damaged(path, "expected the file itself, found a pointer of Git LFS to it");
  }
  if (length > kMaxHeaderBytes) {
    Damaged(path, "header of " + std::to_string(length) + " bytes, expected at most " +
                      std::to_string(kMaxHeaderBytes));
  }
  if (length > file_bytes - kLengthBytes) {
    Damaged(path, "header of " + std::to_string(length) + " bytes, found a file of " +
                      std::to_string(file_bytes) + " bytes");
  }
  return kLengthBytes + length;
}

std::vector<StoredTensor> ParseSafetensors(std::span<const std::byte> front, uint64_t file_bytes,
                                           const std::string& path) {
  const uint64_t data_begin = SafetensorsFrontBytes(front, file_bytes, path);
  const uint64_t data_bytes = file_bytes - data_begin;
  const std::span<const std::byte> header = front.subspan(kLengthBytes, data_begin - kLengthBytes);

  HeaderReader reader;
  const char* text = reinterpret_cast<const char*>(header.data());
  if (!Json::sax_parse(text, text + header.size(), &reader)) {
    Damaged(path, "header: " + reader.problem);
  }
  std::vector<StoredTensor> tensors;
  tensors.reserve(reader.entries.size());
  for (Entry& entry : reader.entries) {
    tensors.push_back(CheckedTensor(entry, data_begin, data_bytes, path));
  }
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    // An empty tensor comes before the tensor at the same offset.
    return std::pair(a.offset, a.num_bytes) < std::pair(b.offset, b.num_bytes);
  });
  CheckCover(tensors, data_begin, data_bytes, path);
  return tensors;
}

}  // namespace longstream
