// Python's `text % values`.
#include "service/jinja/builtins/percent_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/builtins/string_parts.h"
#include "service/jinja/values/unicode.h"

namespace longstream::chat {
namespace {

constexpr int64_t kMostWidth = 100'000;
constexpr int64_t kMostFormatDigits = 100;  // of a number after the point

struct Conversion {
  bool left = false;
  bool zeros = false;
  bool sign = false;
  bool space = false;
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;  // -1: none
  char letter = 0;
};

class Formatter {
 public:
  Formatter(const Text& format, const Value& values, Meter* meter)
      : format_(format), bytes_(format.bytes()), values_(values), meter_(meter) {}

  Text Write() {
    while (at_ < bytes_.size()) {
      const size_t sign = std::min(bytes_.find('%', at_), bytes_.size());
      meter_->Make(sign - at_);
      result_.AppendPart(format_, at_, sign);
      at_ = sign;
      if (at_ < bytes_.size()) Convert();
    }
    // Python does not mind if a value that has items is not used.
    const bool has_items =
        values_.is_dict() || values_.is_undefined() || (values_.is_list() && !IsTuple());
    if (!has_items && next_ < Count()) Fail("'%': not all values are used by the format");
    return std::move(result_);
  }

 private:
  bool IsTuple() const { return values_.is_list() && values_.list().kind == ListKind::kTuple; }
  size_t Count() const { return IsTuple() ? values_.list().items.size() : 1; }

  Value Next() {
    if (next_ >= Count()) Fail("'%': there are fewer values than the format needs");
    ++next_;
    return IsTuple() ? values_.list().items[next_ - 1] : values_;
  }

  char Peek() const {
    if (at_ >= bytes_.size()) Fail("'%': the format is incomplete");
    return bytes_[at_];
  }

  // Reads a number, or takes it from the values for '*'.
  int64_t Number(int64_t most, const char* what) {
    int64_t number = 0;
    if (Peek() == '*') {
      ++at_;
      const Value value = Next();
      if (!value.is_int()) Fail("'%': * needs a whole number");
      number = value.integer();
    }
    for (; Peek() >= '0' && Peek() <= '9'; ++at_) {
      number = std::min(10 * number + (Peek() - '0'), most + 1);
    }
    if (number > most || number < -most) {
      FailUnsupported("'%' with a " + std::string(what) + " above " + std::to_string(most));
    }
    return number;
  }

  Conversion ReadConversion() {
    Conversion one;
    for (;; ++at_) {
      const char c = Peek();
      if (c == '-') {
        one.left = true;
      } else if (c == '0') {
        one.zeros = true;
      } else if (c == '+') {
        one.sign = true;
      } else if (c == ' ') {
        one.space = true;
      } else if (c == '#') {
        one.alternate = true;
      } else {
        break;
      }
    }
    one.width = Number(kMostWidth, "width");
    if (one.width < 0) {
      one.left = true;
      one.width = -one.width;
    }
    if (Peek() == '.') {
      ++at_;
      one.precision = std::max<int64_t>(Number(kMostWidth, "precision"), 0);
    }
    while (Peek() == 'h' || Peek() == 'l' || Peek() == 'L') ++at_;
    one.letter = Peek();
    ++at_;
    return one;
  }

  void Convert() {
    ++at_;  // '%'
    std::optional<Value> named;
    if (Peek() == '(') named = Named();
    const Conversion one = ReadConversion();
    if (one.letter == '%') return result_.Append("%");
    const Value value = named ? *named : Next();
    Text text = one.letter == 's' || one.letter == 'r' ? Textual(one, value) : Numeric(one, value);
    const Alignment alignment = one.left ? Alignment::kLeft : Alignment::kRight;
    text = Aligned(text, alignment, one.width, Text(" "), meter_);
    result_.Append(text);
  }

  Value Named() {
    const size_t end = bytes_.find(')', at_);
    if (end == std::string::npos) Fail("'%': a parenthesis has no partner");
    const std::string_view name = std::string_view{bytes_}.substr(at_ + 1, end - at_ - 1);
    if (name.find('(') != std::string_view::npos) FailUnsupported("'%' with nested parentheses");
    at_ = end + 1;
    if (!values_.is_dict()) Fail("'%': the format needs a dict");
    const Value* const found = values_.dict().Find(name);
    if (found == nullptr) Fail("'%': the dict has no key '" + std::string(name) + "'");
    return *found;
  }

  Text Textual(const Conversion& one, const Value& value) const {
    Text text;
    if (one.letter == 'r') {
      // The repr of a value is that of a list of it, without the brackets.
      const Text list = ToText(Value::MakeList({value}), meter_);
      text = list.Part(1, list.size() - 1);
    } else {
      text = ToText(value, meter_);
    }
    if (one.precision < 0) return text;
    return text.Part(0, OffsetOf(text.bytes(), static_cast<size_t>(one.precision)));
  }

  Text Numeric(const Conversion& one, const Value& value) const {
    const std::string letter(1, one.letter);
    if (std::string_view("diuxXofFeEgG").find(one.letter) == std::string_view::npos) {
      FailUnsupported("'%' with the conversion %" + letter);
    }
    RequireDefined(value);
    if (!value.is_number()) {
      Fail("%" + letter + " needs a number, found " + std::string(value.TypeName()));
    }
    if (one.precision > kMostFormatDigits) FailUnsupported("'%' with more than 100 digits");
    std::string flags = "%";
    if (one.sign) flags += '+';
    if (one.space) flags += ' ';
    if (one.zeros && !one.left) flags += '0';
    const bool is_whole = std::string_view("diuxXo").find(one.letter) != std::string_view::npos;
    return is_whole ? Whole(one, value, flags) : Real(one, value, flags);
  }

  Text Whole(const Conversion& one, const Value& value, const std::string& flags) const {
    int64_t number = 0;
    if (value.is_float()) {
      if (std::string_view("diu").find(one.letter) == std::string_view::npos) {
        Fail("'%' needs a whole number, found float");
      }
      const std::optional<int64_t> whole = ToInt(value);
      if (!whole) return LargeWhole(one, value.number(), flags);
      number = *whole;
    } else {
      number = value.integer();
    }
    if (one.letter != 'd' && one.letter != 'i' && one.letter != 'u') {
      if (number < 0 || one.alternate || one.sign || one.space) {
        FailUnsupported("'%' with a sign or # before a number that is not decimal");
      }
    }
    if (one.precision >= 0 && one.zeros) FailUnsupported("'%' with 0 and a precision");
    const char letter = one.letter == 'u' || one.letter == 'i' ? 'd' : one.letter;
    // In Python a number has at least one digit.
    Conversion printed = one;
    if (one.precision == 0) printed.precision = 1;
    return Printed(printed, flags, "ll", letter, static_cast<long long>(number));
  }

  // A whole number of more than 64 bits.
  Text LargeWhole(const Conversion& one, double number, const std::string& flags) const {
    if (!std::isfinite(number)) Fail("'%' needs a finite number, found " + FloatText(number));
    constexpr int64_t kFewestDigits = 18;
    if (one.precision > kFewestDigits) FailUnsupported("'%' with digits before a large number");
    Conversion printed = one;
    printed.precision = 0;
    return Printed(printed, flags, "", 'f', std::trunc(number));
  }

  Text Real(const Conversion& one, const Value& value, std::string flags) const {
    const double number = value.number();
    // Python fills before nan and inf with zeros, C with spaces.
    if (!std::isfinite(number) && one.zeros) FailUnsupported("'%' with 0 before nan or inf");
    if (one.alternate) flags += '#';
    return Printed(one, flags, "", one.letter, number);
  }

  template <typename Number>
  Text Printed(const Conversion& one, const std::string& flags, const char* size, char letter,
               Number number) const {
    // Zeros fill up to the width; spaces are added by the caller.
    std::string format = flags;
    const bool fills = one.zeros && !one.left;
    if (fills) format += std::to_string(one.width);
    if (one.precision >= 0)
      format += "." + std::to_string(std::min(one.precision, kMostFormatDigits));
    format += size;
    format += letter;
    constexpr size_t kMostOfNumber = 512;
    std::string text(kMostOfNumber + static_cast<size_t>(fills ? one.width : 0), '\0');
    meter_->Make(text.size());
    const int length = std::snprintf(text.data(), text.size(), format.c_str(), number);
    text.resize(static_cast<size_t>(length));
    return Text(std::move(text));
  }

  const Text& format_;
  const std::string& bytes_;
  const Value& values_;
  Meter* const meter_;
  size_t at_ = 0;
  size_t next_ = 0;
  Text result_;
};

}  // namespace

Text PercentFormat(const Text& format, const Value& values, Meter* meter) {
  return Formatter(format, values, meter).Write();
}

}  // namespace longstream::chat
