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
#include "service/jinja/builtins/string_parts.h"
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

// A safe text is escaped already, unless the filter is forceescape.
template <bool kForce>
Value Escape(const FilterCall& call) {
  if (!kForce && call.input.is_safe()) return call.input;
  return Value::MakeSafe(Value::MakeText(EscapeHtml(ToText(call.input, call.meter), call.meter)));
}

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

Value Center(const FilterCall& call) {
  return Value::MakeText(Aligned(ToText(call.input, call.meter), Alignment::kCenter,
                                 call.arguments.Integer(0, 80), Text(" "), call.meter));
}

// Cuts a text that is longer than `length` plus `leeway` characters, at a space unless `killwords`
// is set, and adds `end`.
Value Truncate(const FilterCall& call) {
  constexpr int64_t kLeeway = 5;  // the default of Jinja's policies
  const int64_t length = call.arguments.Integer(0, 255);
  const Value end_value = call.arguments.Get(2, Value::MakeText("..."));
  const Text& end = RequireText(end_value, call.arguments.what());
  const int64_t leeway = call.arguments.Integer(3, kLeeway);
  const auto of_end = static_cast<int64_t>(CountCharacters(end.bytes()));
  if (length < of_end) Fail("truncate: the length is below that of the end");
  if (leeway < 0) Fail("truncate: the leeway is below 0");
  // Whatever has a length and is short enough stays as it is.
  const int64_t size = call.input.is_undefined() ? 0 : Length(call.input);
  if (size <= length || size - length <= leeway) return call.input;
  const Text& text = RequireText(call.input, call.arguments.what());
  call.meter->Make(text.size() + end.size());
  size_t cut = OffsetOf(text.bytes(), static_cast<size_t>(length - of_end));
  if (!call.arguments.Flag(1)) {
    const size_t space = std::string_view{text.bytes()}.substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  Text result = text.Part(0, cut);
  result.Append(end);
  return Value::MakeText(std::move(result));
}

Value WordCount(const FilterCall& call) {
  const Text text = ToText(call.input, call.meter);
  call.meter->Step(text.size() / 8);
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text.bytes(), &at);
    const bool is_word = IsAlnum(c) || c == U'_';
    words += is_word && !in_word;
    in_word = is_word;
  }
  return Value::MakeInt(words);
}

// Percent-encodes a text for a URL. In a query a space becomes '+', and '/' is encoded, too.
Text UrlQuoted(const Value& value, bool in_query, Meter* meter) {
  const Text text = ToText(value, meter);
  meter->Make(3 * text.size());
  std::string quoted;
  for (const char c : text.bytes()) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_free = is_letter || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
                         c == '~' || (c == '/' && !in_query);
    if (is_free) {
      quoted += c;
    } else if (c == ' ' && in_query) {
      quoted += '+';
    } else {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      quoted += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text.Changed(std::move(quoted));
}

// Encodes a text, or a dict or pairs as a query.
Value UrlEncode(const FilterCall& call) {
  const Value& input = call.input;
  if (!input.is_dict() && !input.is_list()) {
    return Value::MakeText(UrlQuoted(input, /*in_query=*/false, call.meter));
  }
  const Value items =
      input.is_dict() ? Items(input.dict(), call.meter, ListKind::kList) : call.input;
  Text query;
  bool is_first = true;
  for (const Value& item : Elements(items, call.meter)) {
    const std::vector<Value> pair = Elements(item, call.meter);
    if (pair.size() != 2) Fail(call.arguments.what() + ": expected pairs of a key and a value");
    if (!std::exchange(is_first, false)) query.Append("&");
    query.Append(UrlQuoted(pair[0], /*in_query=*/true, call.meter));
    query.Append("=");
    query.Append(UrlQuoted(pair[1], /*in_query=*/true, call.meter));
  }
  return Value::MakeText(std::move(query));
}

}  // namespace

const FilterEntry* FindTextFilter(std::string_view name) {
  static const FilterEntry entries[] = {
      {"abs", &Abs, {}, 0},
      {"capitalize", &Case<&Capitalize>, {}, 0},
      {"center", &Center, {"width"}, 0},
      {"d", &Default, {"default_value", "boolean"}, 0},
      {"default", &Default, {"default_value", "boolean"}, 0},
      {"e", &Escape<false>, {}, 0},
      {"escape", &Escape<false>, {}, 0},
      {"float", &Float, {"default"}, 0},
      {"forceescape", &Escape<true>, {}, 0},
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
      {"truncate", &Truncate, {"length", "killwords", "end", "leeway"}, 0},
      {"upper", &Case<&Upper>, {}, 0},
      {"urlencode", &UrlEncode, {}, 0},
      {"wordcount", &WordCount, {}, 0},
  };
  const auto* found = std::find_if(std::begin(entries), std::end(entries),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(entries) ? nullptr : found;
}

}  // namespace longstream::chat
