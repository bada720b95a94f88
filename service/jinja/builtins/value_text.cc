// Python's str() and repr().
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/values/unicode.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

std::string Escape(char32_t c) {
  std::array<char, 16> text{};
  const char* format = c <= 0xFF ? "\\x%02x" : c <= 0xFFFF ? "\\u%04x" : "\\U%08x";
  std::snprintf(text.data(), text.size(), format, static_cast<unsigned>(c));
  return text.data();
}

std::string TextRepr(std::string_view text) {
  const char quote =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  std::string repr(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    if (c == U'\n') {
      repr += "\\n";
    } else if (c == U'\r') {
      repr += "\\r";
    } else if (c == U'\t') {
      repr += "\\t";
    } else if (c == U'\\' || c == static_cast<char32_t>(quote)) {
      repr += '\\';
      repr += static_cast<char>(c);
    } else if (IsPrintable(c)) {
      repr += text.substr(begin, at - begin);
    } else {
      repr += Escape(c);
    }
  }
  return repr += quote;
}

void AppendRepr(const Value& value, Meter* meter, Text* text);

void AppendList(const List& list, Meter* meter, Text* text) {
  if (list.kind == ListKind::kGenerator || list.kind == ListKind::kView) {
    FailUnsupported("printing a generator or a view without the filter 'list'");
  }
  if (list.kind == ListKind::kRange) return text->Append(*list.repr);
  const bool is_tuple = list.kind == ListKind::kTuple;
  text->Append(is_tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) text->Append(", ");
    AppendRepr(list.items[i], meter, text);
  }
  if (is_tuple && list.items.size() == 1) text->Append(",");
  text->Append(is_tuple ? ")" : "]");
}

void AppendRepr(const Value& value, Meter* meter, Text* text) {
  meter->Step();
  if (value.is_text()) {
    meter->Make(value.text().size());
    text->Append(value.text().Changed(TextRepr(value.text().bytes())));
  } else if (value.is_list()) {
    AppendList(value.list(), meter, text);
  } else if (value.is_dict()) {
    text->Append("{");
    bool is_first = true;
    for (const Dict::Entry& entry : value.dict().entries()) {
      if (!is_first) text->Append(", ");
      is_first = false;
      AppendRepr(entry.key, meter, text);
      text->Append(": ");
      AppendRepr(entry.value, meter, text);
    }
    text->Append("}");
  } else if (value.is_undefined()) {
    text->Append("Undefined");
  } else {
    text->Append(ToText(value, meter));
  }
}

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::scientific);
  const std::string text(buffer.data(), result.ptr);
  const size_t mark = text.find('e');
  const int exponent = std::stoi(text.substr(mark + 1));
  std::string digits = text.substr(0, mark);
  const bool is_negative = digits[0] == '-';
  if (is_negative) digits.erase(0, 1);
  const std::string sign = is_negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string power = std::to_string(std::abs(exponent));
    return sign + digits + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  std::erase(digits, '.');
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits.append(whole - digits.size(), '0') + ".0";
  return sign + digits.insert(whole, ".");
}

Text ToText(const Value& value, Meter* meter) {
  if (value.is_text()) return value.text();
  Text text;
  if (value.is_undefined()) return text;
  if (value.is_none()) {
    text.Append("None");
  } else if (value.is_bool()) {
    text.Append(value.Truth() ? "True" : "False");
  } else if (value.is_int()) {
    text.Append(std::to_string(value.integer()));
  } else if (value.is_float()) {
    text.Append(FloatText(value.number()));
  } else if (value.is_list() || value.is_dict()) {
    AppendRepr(value, meter, &text);
  } else if (value.is_callable() && value.callable().kind == Callable::Kind::kMacro) {
    const std::string& name = value.callable().name;
    text.Append(name.empty() ? "<Macro anonymous>" : "<Macro '" + name + "'>");
  } else if (value.is_loop()) {
    const Loop& loop = value.loop();
    text.Append("<LoopContext " + std::to_string(loop.index + 1) + "/" +
                std::to_string(loop.Length()) + ">");
  } else {
    FailUnsupported("printing a " + std::string(value.TypeName()));
  }
  return text;
}

}  // namespace longstream::chat
