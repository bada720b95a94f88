// Makes the values in callbacks of the parser, so that members keep their order and the depth is
// bounded.
#include "service/jinja/values/json_reader.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace longstream::chat {
namespace {

// The allocator's own bytes in a block, rounded up.
constexpr uint64_t kBlockBytes = 16;
// The counters that a shared object begins with.
constexpr uint64_t kSharedBytes = 16 + kBlockBytes;
// The index of a large dict has a node for each key.
constexpr uint64_t kIndexNodeBytes = 32 + sizeof(std::pair<std::string, size_t>) + kBlockBytes;

// The memory that the bytes of a text take, without the Text itself.
uint64_t BytesOf(const std::string& text) {
  constexpr size_t kInlineBytes = 15;  // a std::string holds a short text itself
  const uint64_t runs = sizeof(TextRun) + kBlockBytes;
  return runs + (text.size() <= kInlineBytes ? 0 : text.size() + kBlockBytes);
}

// The callbacks of nlohmann's JSON parser. The library prescribes their names.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(bool is_foreign, uint64_t max_bytes) : is_foreign_(is_foreign), max_bytes_(max_bytes) {}

  bool null() override { return Add(Value()); }
  bool boolean(bool value) override { return Add(Value::MakeBool(value)); }
  bool number_integer(number_integer_t value) override { return Add(Value::MakeInt(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max())) {
      return AddTooLarge(static_cast<number_float_t>(value));
    }
    return Add(Value::MakeInt(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) return AddTooLarge(value);
    return Add(Value::MakeFloat(value));
  }
  bool string(string_t& text) override {
    if (!Count(sizeof(Text) + kSharedBytes + BytesOf(text))) return false;
    return Add(Value::MakeText(Text(text, is_foreign_)));
  }
  bool binary(binary_t& /*value*/) override { return Refuse("binary data"); }

  bool start_object(size_t /*elements*/) override { return Begin(/*is_object=*/true); }
  bool key(string_t& name) override {
    const size_t size = open_.back().dict.size();
    const uint64_t index_bytes = size + 1 < Dict::kIndexedSize ? 0 : kIndexNodeBytes + name.size();
    const uint64_t bytes = sizeof(Text) + kSharedBytes + BytesOf(name) + index_bytes;
    if (!Count(bytes) || !Grow(size, sizeof(Dict::Entry))) return false;
    open_.back().key = Value::MakeText(Text(name, is_foreign_));
    return true;
  }
  bool end_object() override {
    Dict dict = std::move(open_.back().dict);
    open_.pop_back();
    return Add(Value::MakeDict(std::move(dict)));
  }
  bool start_array(size_t /*elements*/) override { return Begin(/*is_object=*/false); }
  bool end_array() override {
    std::vector<Value> items = std::move(open_.back().items);
    open_.pop_back();
    return Add(Value::MakeList(std::move(items)));
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    return Refuse(absl::StrCat("not JSON at byte ", position, ": ", error.what()));
  }

  const Value& result() const { return result_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& refusal() const { return refusal_; }

 private:
  struct Open {
    bool is_object = false;
    Dict dict;
    Value key;
    std::vector<Value> items;
  };

  bool Begin(bool is_object) {
    if (open_.size() == kMaxDataDepth) {
      return Refuse(absl::StrCat("nested deeper than ", kMaxDataDepth, " levels"));
    }
    if (!Count(std::max(sizeof(Dict), sizeof(List)) + kSharedBytes)) return false;
    open_.emplace_back().is_object = is_object;
    return true;
  }

  // Counts memory before it is allocated.
  bool Count(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= max_bytes_) return true;
    return Refuse(absl::StrCat("the values take more than ", max_bytes_, " bytes of memory"));
  }

  bool Add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.Set(open_.back().key, std::move(value));
    } else {
      if (!Grow(open_.back().items.size(), sizeof(Value))) return false;
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  // Counts the growth of an array of `size` elements by one element. An array doubles when it is
  // full. While its elements are moved, the old array exists too.
  bool Grow(size_t size, size_t element_bytes) {
    if (!std::has_single_bit(size) && size != 0) return true;
    if (!Count(std::max<size_t>(1, 2 * size) * element_bytes + kBlockBytes)) return false;
    if (size != 0) bytes_ -= size * element_bytes + kBlockBytes;
    return true;
  }

  // Adds a whole number that exceeds 64 bits, as a float. Refuses such a number from a caller,
  // because a template could not print it exactly.
  bool AddTooLarge(number_float_t value) {
    if (is_foreign_) return Refuse("a whole number exceeds 64 bits");
    return Add(Value::MakeFloat(value));
  }

  bool Refuse(std::string why) {
    refusal_ = std::move(why);
    return false;
  }

  const bool is_foreign_;
  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::vector<Open> open_;
  Value result_;
  std::string refusal_;
};

}  // namespace

absl::StatusOr<Value> ReadJson(std::string_view json, bool is_foreign, uint64_t max_bytes,
                               uint64_t* bytes) {
  Reader reader(is_foreign, max_bytes);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) {
    return absl::InvalidArgumentError(reader.refusal());
  }
  if (bytes != nullptr) *bytes = reader.bytes();
  return reader.result();
}

}  // namespace longstream::chat
