// Methods of str that cut a text into three parts or make it wider.
#include "service/jinja/builtins/string_parts.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "service/jinja/builtins/operators.h"
#include "service/jinja/values/unicode.h"

namespace longstream::chat {
namespace {

// Appends `count` times `fill`, which is one character.
void AppendFill(const Text& fill, size_t count, Meter* meter, Text* text) {
  meter->Make(count * fill.size());
  for (size_t i = 0; i < count; ++i) text->Append(fill);
}

// How many characters are missing to a width.
size_t Missing(const Text& text, int64_t width, Meter* meter) {
  meter->Read(text.size());
  const auto size = static_cast<int64_t>(CountCharacters(text.bytes()));
  return static_cast<size_t>(std::max<int64_t>(width - size, 0));
}

}  // namespace

Value Partition(const Text& text, const ArgumentReader& arguments, bool from_end, Meter* meter) {
  const Value separator = arguments.Get(0);
  const std::string& wanted = RequireText(separator, arguments.what()).bytes();
  if (wanted.empty()) Fail(arguments.what() + ": the separator is empty");
  meter->Make(text.size());
  meter->MakeList(3);
  const size_t found = from_end ? text.bytes().rfind(wanted) : text.bytes().find(wanted);
  std::vector<Value> parts(3, Value::MakeText(Text()));
  if (found == std::string::npos) {
    parts[from_end ? 2 : 0] = Value::MakeText(text);
  } else {
    const size_t end = found + wanted.size();
    parts = {Value::MakeText(text.Part(0, found)), separator,
             Value::MakeText(text.Part(end, text.size()))};
  }
  return Value::MakeList(std::move(parts), ListKind::kTuple);
}

Text Aligned(const Text& text, Alignment alignment, int64_t width, const Text& fill, Meter* meter) {
  if (CountCharacters(fill.bytes()) != 1) Fail("the fill of an alignment must be one character");
  const size_t missing = Missing(text, width, meter);
  size_t before = 0;
  if (alignment == Alignment::kRight) before = missing;
  if (alignment == Alignment::kCenter) {
    before = missing / 2 + (missing & static_cast<size_t>(width) & 1);
  }
  meter->Make(text.size());
  Text result;
  AppendFill(fill, before, meter, &result);
  result.Append(text);
  AppendFill(fill, missing - before, meter, &result);
  return result;
}

Text ZeroFilled(const Text& text, int64_t width, Meter* meter) {
  const size_t missing = Missing(text, width, meter);
  const bool has_sign = !text.empty() && (text.bytes()[0] == '+' || text.bytes()[0] == '-');
  meter->Make(text.size());
  Text result = text.Part(0, has_sign ? 1 : 0);
  AppendFill(Text("0"), missing, meter, &result);
  result.AppendPart(text, has_sign ? 1 : 0, text.size());
  return result;
}

}  // namespace longstream::chat
