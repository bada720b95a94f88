// Iteration, indices, slices, and the conversion of texts to numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "service/jinja/builtins/methods.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/values/unicode.h"

namespace longstream::chat {
namespace {

Value Missing(const Value& value, const Value& key) {
  std::string what = "'" + std::string(value.TypeName()) + " object' has no ";
  if (key.is_text()) {
    what += "attribute '" + key.text().bytes() + "'";
  } else if (key.is_int()) {
    what += "element " + std::to_string(key.integer());
  } else {
    what += "such element";
  }
  return Value::MakeUndefined(std::move(what));
}

// Converts an index of Python, which may be negative, to an offset. Returns nothing if the index is
// outside the sequence of `size` elements.
std::optional<size_t> PlaceIn(int64_t index, int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

// The indices of a slice: from `from` on, in steps of `step`, before `to`.
struct SliceRange {
  bool Has(int64_t at) const { return step > 0 ? at < to : at > to; }

  int64_t from = 0;
  int64_t to = 0;
  int64_t step = 1;
};

SliceRange RangeOf(int64_t size, const Value& begin, const Value& end, const Value& step_value) {
  const auto given = [](const Value& value) -> std::optional<int64_t> {
    if (value.is_none()) return std::nullopt;
    if (value.is_int() || value.is_bool()) return value.integer();
    RequireDefined(value);
    Fail("the bounds of a slice must be whole numbers, found " + std::string(value.TypeName()));
  };
  // Every step greater than the size takes one element, so a step may be clamped.
  const int64_t step = std::clamp(given(step_value).value_or(1), -size - 1, size + 1);
  if (step == 0) Fail("the step of a slice is 0");
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const std::optional<int64_t> first = given(begin);
  const std::optional<int64_t> last = given(end);
  return {first ? clamp(*first) : (step > 0 ? low : high),
          last ? clamp(*last) : (step > 0 ? high : low), step};
}

Value SliceText(const Text& text, const Value& begin, const Value& end, const Value& step,
                Meter* meter) {
  meter->Make(text.size());
  const int64_t size = Length(Value::MakeText(text));
  const SliceRange range = RangeOf(size, begin, end, step);
  Text part;
  if (range.step == 1) {
    if (range.from >= range.to) return Value::MakeText(Text());
    const size_t first = OffsetOf(text.bytes(), static_cast<size_t>(range.from));
    const std::string_view rest = std::string_view{text.bytes()}.substr(first);
    part.AppendPart(text, first,
                    first + OffsetOf(rest, static_cast<size_t>(range.to - range.from)));
    return Value::MakeText(std::move(part));
  }
  const std::vector<Value> characters = Elements(Value::MakeText(text), meter);
  for (int64_t at = range.from; range.Has(at); at += range.step) {
    part.Append(characters[static_cast<size_t>(at)].text());
  }
  return Value::MakeText(std::move(part));
}

// A slice of a range is a range.
Value SlicedRange(const std::vector<Value>& items, const SliceRange& slice,
                  std::vector<Value> part) {
  const int64_t first = items.empty() ? 0 : items[0].integer();
  const int64_t unit = items.size() < 2 ? 1 : items[1].integer() - first;
  const auto bound = [&](int64_t at) {
    int64_t number = 0;
    if (__builtin_mul_overflow(at, unit, &number) ||
        __builtin_add_overflow(first, number, &number)) {
      Fail("a whole number exceeds 64 bits");
    }
    return number;
  };
  int64_t step = 0;
  if (__builtin_mul_overflow(slice.step, unit, &step)) Fail("a whole number exceeds 64 bits");
  return Value::MakeRange(std::move(part), bound(slice.from), bound(slice.to), step);
}

// Removes single underscores between digits, which Python's int() and float() allow.
std::string WithoutUnderscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_alnum = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (text[i] == '_' && i > 0 && is_alnum(i - 1) && is_alnum(i + 1)) continue;
    digits += text[i];
  }
  return digits;
}

std::string_view Stripped(std::string_view text) {
  const size_t begin = StripBegin(text, nullptr);
  return text.substr(begin, StripEnd(text, begin, nullptr) - begin);
}

}  // namespace

Value AttributePath(Value item, const Value& attribute, const Value& otherwise, Meter* meter) {
  const auto take = [&](const Value& key) {
    item = Item(item, key, meter);
    if (item.is_undefined() && !otherwise.is_none()) item = otherwise;
  };
  if (!attribute.is_text()) {
    take(attribute);
    return item;
  }
  const std::string& path = attribute.text().bytes();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const Value key = Value::MakeText(part);
    take(is_number ? Value::MakeInt(ToInt(key).value_or(0)) : key);
    begin = end + 1;
  }
  return item;
}

std::vector<Value> Elements(const Value& value, Meter* meter) {
  if (value.is_undefined()) return {};
  std::vector<Value> elements;
  if (value.is_list()) {
    meter->MakeList(value.list().items.size() - value.list().taken);
    return value.list().Take();
  }
  if (value.is_dict()) {
    meter->MakeList(value.dict().size());
    for (const Dict::Entry& entry : value.dict().entries()) {
      elements.push_back(entry.key);
    }
    return elements;
  }
  if (value.is_text()) {
    const Text& text = value.text();
    meter->MakeList(text.size());
    for (size_t at = 0; at < text.size();) {
      size_t end = at + 1;
      while (end < text.size() && IsContinuation(text.bytes()[end])) ++end;
      elements.push_back(Value::MakeText(text.Part(at, end)));
      at = end;
    }
    return elements;
  }
  Fail("'" + std::string(value.TypeName()) + "' is not iterable");
}

int64_t Length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return static_cast<int64_t>(CountCharacters(value.text().bytes()));
  if (value.is_dict()) return static_cast<int64_t>(value.dict().size());
  if (value.is_list() && value.list().kind != ListKind::kGenerator) {
    return static_cast<int64_t>(value.list().items.size());
  }
  Fail("'" + std::string(value.TypeName()) + "' has no length");
}

Value Item(const Value& value, const Value& key, Meter* meter) {
  RequireDefined(value);
  meter->Step();
  if (value.is_dict() && CanBeKey(key, meter)) {
    if (const Value* found = value.dict().Find(key)) return *found;
  }
  if (value.is_list() && (key.is_int() || key.is_bool()) &&
      value.list().kind != ListKind::kGenerator && value.list().kind != ListKind::kView) {
    const std::vector<Value>& items = value.list().items;
    const auto place = PlaceIn(key.integer(), static_cast<int64_t>(items.size()));
    return place ? items[*place] : Missing(value, key);
  }
  if (value.is_text() && (key.is_int() || key.is_bool())) {
    const Text& text = value.text();
    meter->Read(text.size());
    const auto place = PlaceIn(key.integer(), Length(value));
    if (!place) return Missing(value, key);
    const size_t begin = OffsetOf(text.bytes(), *place);
    const std::string_view rest = std::string_view{text.bytes()}.substr(begin);
    return Value::MakeText(text.Part(begin, begin + OffsetOf(rest, 1)));
  }
  if (!key.is_text()) return Missing(value, key);
  return Attribute(value, key.text().bytes()).value_or(Missing(value, key));
}

Value Slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Meter* meter) {
  RequireDefined(value);
  if (value.is_text()) return SliceText(value.text(), begin, end, step, meter);
  if (!value.is_list() || value.list().kind == ListKind::kGenerator ||
      value.list().kind == ListKind::kView) {
    Fail("'" + std::string(value.TypeName()) + "' cannot be sliced");
  }
  const std::vector<Value>& items = value.list().items;
  std::vector<Value> part;
  const SliceRange range = RangeOf(static_cast<int64_t>(items.size()), begin, end, step);
  for (int64_t at = range.from; range.Has(at); at += range.step) {
    part.push_back(items[static_cast<size_t>(at)]);
  }
  meter->MakeList(part.size());
  if (value.list().kind == ListKind::kRange) return SlicedRange(items, range, std::move(part));
  return Value::MakeList(std::move(part), value.list().kind);
}

std::optional<int64_t> ToInt(const Value& value, int64_t base) {
  if (value.is_int() || value.is_bool()) return value.integer();
  if (value.is_float()) {
    const double number = std::trunc(value.number());
    constexpr double kLimit = 9223372036854775808.0;
    if (!(number >= -kLimit && number < kLimit)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (!value.is_text() || base < 2 || base > 36) return std::nullopt;
  const std::string digits = WithoutUnderscores(Stripped(value.text().bytes()));
  const bool has_plus = digits.starts_with('+') && !digits.starts_with("+-");
  const char* begin = digits.data() + (has_plus ? 1 : 0);
  const char* end = digits.data() + digits.size();
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number, static_cast<int>(base));
  if (error == std::errc::result_out_of_range) Fail("a whole number exceeds 64 bits");
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<double> ToFloat(const Value& value) {
  if (value.is_number()) return value.number();
  if (!value.is_text()) return std::nullopt;
  std::string digits = WithoutUnderscores(Stripped(value.text().bytes()));
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  // The number is out of range. Python gives infinity or 0.
  if (error != std::errc()) {
    const bool is_small = digits.find("e-") != std::string::npos;
    const double sign = digits.starts_with('-') ? -1.0 : 1.0;
    return is_small ? sign * 0.0 : sign * std::numeric_limits<double>::infinity();
  }
  return number;
}

}  // namespace longstream::chat
