// The filters of texts and numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "service/jinja/builtins/filters.h"
#include "service/jinja/builtins/methods.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/values/unicode.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

template <std::string (*kFunction)(std::string_view)>
Value Case(const FilterCall& call) {
  const Text text = ToText(call.input, call.meter);
  call.meter->Make(4 * text.size());
  return Value::MakeText(text.Changed(kFunction(text.bytes())));
}

// Jinja's filter `title`, which differs from str.title: a word begins after white space, a hyphen
// or an opening bracket.
std::string TitleWords(std::string_view text) {
  std::string result;
  size_t word = 0;
  const auto finish = [&](size_t end) {
    const std::string_view part = text.substr(word, end - word);
    const size_t first = OffsetOf(part, 1);
    result += Upper(part.substr(0, first)) + Lower(part.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    if (!IsSpace(c) && (c >= 0x80 || std::string_view("-({[<").find(static_cast<char>(c)) ==
                                         std::string_view::npos)) {
      continue;
    }
    finish(begin);
    result += text.substr(begin, at - begin);
    word = at;
  }
  finish(text.size());
  return result;
}

Value String(const FilterCall& call) {
  if (call.input.is_text()) return call.input;
  return Value::MakeText(ToText(call.input, call.meter));
}

Value Safe(const FilterCall& call) { return Value::MakeSafe(String(call)); }

Value Trim(const FilterCall& call) {
  const Value text = Value::MakeText(Strip(ToText(call.input, call.meter), call.arguments.Get(0),
                                           /*at_begin=*/true, /*at_end=*/true, call.meter));
  return call.input.is_safe() ? Value::MakeSafe(text) : text;
}

Value ReplaceText(const FilterCall& call) {
  return Value::MakeText(Replace(
      ToText(call.input, call.meter), ToText(call.arguments.Get(0), call.meter).bytes(),
      ToText(call.arguments.Get(1), call.meter), call.arguments.Integer(2, -1), call.meter));
}

Text Spaces(int64_t count, Meter* meter) {
  const auto size = static_cast<size_t>(std::max<int64_t>(count, 0));
  meter->Make(size);
  return Text(std::string(size, ' '));
}

Value Indent(const FilterCall& call) {
  const Value width = call.arguments.Get(0, Value::MakeInt(4));
  const Text margin =
      width.is_text() ? width.text() : Spaces(call.arguments.Integer(0, 4), call.meter);
  const bool indents_first = call.arguments.Flag(1);
  const bool indents_blank = call.arguments.Flag(2);
  Text text = RequireText(call.input, call.arguments.what());
  text.Append("\n");
  Text result;
  if (indents_first) result.Append(margin);
  bool is_first = true;
  for (const Text& line : SplitLines(text, call.meter)) {
    call.meter->Make(line.size() + margin.size() + 1);
    if (!is_first) result.Append("\n");
    if (!is_first && (indents_blank || !line.empty())) result.Append(margin);
    result.Append(line);
    is_first = false;
  }
  return Value::MakeText(std::move(result));
}

Value Int(const FilterCall& call) {
  RequireDefined(call.input);
  if (const auto number = ToInt(call.input, call.arguments.Integer(1, 10))) {
    return Value::MakeInt(*number);
  }
  const std::optional<double> number = ToFloat(call.input);
  const auto whole = number ? ToInt(Value::MakeFloat(*number)) : std::nullopt;
  const bool is_finite = number && std::isfinite(*number);
  if (!whole && (is_finite || (number && std::isinf(*number) && call.input.is_float()))) {
    Fail("a whole number exceeds 64 bits");
  }
  return whole ? Value::MakeInt(*whole) : call.arguments.Get(0, Value::MakeInt(0));
}

Value Float(const FilterCall& call) {
  RequireDefined(call.input);
  const std::optional<double> number = ToFloat(call.input);
  return number ? Value::MakeFloat(*number) : call.arguments.Get(0, Value::MakeFloat(0.0));
}

double RequireNumber(const FilterCall& call) {
  RequireDefined(call.input);
  if (!call.input.is_number()) {
    Fail(call.arguments.what() + ": expected a number, found " +
         std::string(call.input.TypeName()));
  }
  return call.input.number();
}

Value Abs(const FilterCall& call) {
  const double number = RequireNumber(call);
  if (call.input.is_float()) return Value::MakeFloat(std::abs(number));
  return call.input.integer() < 0 ? Unary("-", call.input) : Value::MakeInt(call.input.integer());
}

// Rounds as Python does: by the exact decimal value of the number, and halves to the even digit.
double RoundHalfEven(double number, int64_t precision) {
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(number / unit) * unit;
  }
  std::array<char, 512> digits{};
  std::snprintf(digits.data(), digits.size(), "%.*f", static_cast<int>(precision), number);
  return std::strtod(digits.data(), nullptr);
}

Value Round(const FilterCall& call) {
  const double number = RequireNumber(call);
  const int64_t precision = call.arguments.Integer(0, 0);
  const std::string method =
      ToText(call.arguments.Get(1, Value::MakeText("common")), call.meter).bytes();
  constexpr int64_t kMostDigits = 100;
  if (precision < -kMostDigits || precision > kMostDigits) {
    FailUnsupported("a precision of " + std::to_string(precision) + " digits");
  }
  if (method == "common") {
    if (!call.input.is_float() && precision >= 0) return Value::MakeInt(call.input.integer());
    const double rounded = RoundHalfEven(number, precision);
    if (call.input.is_float()) return Value::MakeFloat(rounded);
    return Value::MakeInt(static_cast<int64_t>(rounded));
  }
  if (method != "ceil" && method != "floor") Fail("round: method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number * unit;
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  // Python's ceil gives a whole number, which has no negative zero.
  return Value::MakeFloat(whole == 0.0 ? 0.0 : whole / unit);
}

Value Default(const FilterCall& call) {
  const bool replaces =
      call.input.is_undefined() || (call.arguments.Flag(1) && !call.input.Truth());
  return replaces ? call.arguments.Get(0, Value::MakeText("")) : call.input;
}

}  // namespace

const FilterEntry* FindTextFilter(std::string_view name) {
  static const FilterEntry entries[] = {
      {"abs", &Abs, {}, 0},
      {"capitalize", &Case<&Capitalize>, {}, 0},
      {"d", &Default, {"default_value", "boolean"}, 0},
      {"default", &Default, {"default_value", "boolean"}, 0},
      {"float", &Float, {"default"}, 0},
      {"indent", &Indent, {"width", "first", "blank"}, 0},
      {"int", &Int, {"default", "base"}, 0},
      {"lower", &Case<&Lower>, {}, 0},
      {"replace", &ReplaceText, {"old", "new", "count"}, 2},
      {"round", &Round, {"precision", "method"}, 0},
      {"safe", &Safe, {}, 0},
      {"string", &String, {}, 0},
      {"title", &Case<&TitleWords>, {}, 0},
      {"tojson", &ToJson, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0},
      {"trim", &Trim, {"chars"}, 0},
      {"upper", &Case<&Upper>, {}, 0},
  };
  const auto* found = std::find_if(std::begin(entries), std::end(entries),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(entries) ? nullptr : found;
}

}  // namespace longstream::chat
