// The methods of str, such as split and strip. If a method copies bytes unchanged, the result
// remembers which of them are foreign (see Text).
#include "service/jinja/builtins/string_methods.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "service/jinja/builtins/methods.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/builtins/string_parts.h"
#include "service/jinja/values/unicode.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

using Method = Value (*)(const Text& text, const ArgumentReader& arguments, Meter* meter);

// The offsets [begin, end) of the parts that a split gives.
using Cuts = std::vector<TextRun>;

Value TextsOf(const Text& text, const Cuts& cuts, Meter* meter) {
  meter->MakeList(cuts.size());
  std::vector<Value> parts;
  parts.reserve(cuts.size());
  for (const TextRun& cut : cuts) {
    meter->Make(cut.end - cut.begin);
    parts.push_back(Value::MakeText(text.Part(cut.begin, cut.end)));
  }
  return Value::MakeList(std::move(parts));
}

size_t MostSplits(const ArgumentReader& arguments) {
  const int64_t most = arguments.Integer(1, -1);
  return most < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(most);
}

// Splits at runs of white space. No part is empty. The rest after `most` splits keeps the white
// space at its end.
Cuts SplitWords(std::string_view text, size_t most) {
  Cuts cuts;
  size_t at = StripBegin(text, nullptr);
  while (at < text.size()) {
    size_t end = at;
    if (cuts.size() == most) {
      cuts.push_back({at, text.size()});
      break;
    }
    while (end < text.size()) {
      size_t next = end;
      if (IsSpace(NextCodePoint(text, &next))) break;
      end = next;
    }
    cuts.push_back({at, end});
    at = end + StripBegin(text.substr(end), nullptr);
  }
  return cuts;
}

Cuts SplitWordsFromEnd(std::string_view text, size_t most) {
  Cuts cuts;
  size_t end = StripEnd(text, 0, nullptr);
  while (end > 0) {
    size_t begin = end;
    if (cuts.size() == most) {
      cuts.push_back({0, end});
      break;
    }
    while (begin > 0) {
      size_t before = begin;
      if (IsSpace(PreviousCodePoint(text, &before))) break;
      begin = before;
    }
    cuts.push_back({begin, end});
    end = StripEnd(text.substr(0, begin), 0, nullptr);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

const Text& Separator(const ArgumentReader& arguments) {
  static const Text none;
  if (!arguments.Has(0)) return none;
  const Value separator = arguments.Get(0);
  if (separator.is_none()) return none;
  const Text& text = RequireText(separator, arguments.what());
  if (text.empty()) Fail(arguments.what() + ": the separator is empty");
  return text;
}

Value Split(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  const std::string separator = Separator(arguments).bytes();
  const size_t most = MostSplits(arguments);
  meter->Read(text.size());
  if (separator.empty()) return TextsOf(text, SplitWords(text.bytes(), most), meter);
  Cuts cuts;
  size_t begin = 0;
  while (cuts.size() < most) {
    const size_t found = text.bytes().find(separator, begin);
    if (found == std::string::npos) break;
    cuts.push_back({begin, found});
    begin = found + separator.size();
  }
  cuts.push_back({begin, text.size()});
  return TextsOf(text, cuts, meter);
}

Value SplitFromEnd(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  const std::string separator = Separator(arguments).bytes();
  const size_t most = MostSplits(arguments);
  meter->Read(text.size());
  if (separator.empty()) return TextsOf(text, SplitWordsFromEnd(text.bytes(), most), meter);
  Cuts cuts;
  size_t end = text.size();
  while (cuts.size() < most && end >= separator.size()) {
    const size_t found = text.bytes().rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    cuts.push_back({found + separator.size(), end});
    end = found;
  }
  cuts.push_back({0, end});
  std::reverse(cuts.begin(), cuts.end());
  return TextsOf(text, cuts, meter);
}

Value Lines(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  std::vector<Value> lines;
  for (Text& line : SplitLines(text, meter, arguments.Flag(0)))
    lines.push_back(Value::MakeText(std::move(line)));
  return Value::MakeList(std::move(lines));
}

template <bool kBegin, bool kEnd>
Value StripMethod(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  return Value::MakeText(Strip(text, arguments.Get(0), kBegin, kEnd, meter));
}

// startswith and endswith take one text or a tuple of texts.
template <bool kAtEnd>
Value StartsOrEnds(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  const Value wanted = arguments.Get(0);
  const bool is_tuple = wanted.is_list() && wanted.list().kind == ListKind::kTuple;
  const std::vector<Value> options =
      is_tuple ? Elements(wanted, meter) : std::vector<Value>{wanted};
  for (const Value& option : options) {
    const std::string& part = RequireText(option, arguments.what()).bytes();
    if (kAtEnd ? text.bytes().ends_with(part) : text.bytes().starts_with(part)) {
      return Value::MakeBool(true);
    }
  }
  return Value::MakeBool(false);
}

template <std::string (*kFunction)(std::string_view)>
Value Case(const Text& text, const ArgumentReader& /*arguments*/, Meter* meter) {
  meter->Make(4 * text.size());
  return Value::MakeText(text.Changed(kFunction(text.bytes())));
}

template <bool kFromEnd, bool kMustBeThere>
Value Find(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  meter->Read(text.size());
  const std::string part = RequireText(arguments.Get(0), arguments.what()).bytes();
  const size_t found = kFromEnd ? text.bytes().rfind(part) : text.bytes().find(part);
  if (found == std::string::npos) {
    if (kMustBeThere) Fail(arguments.what() + ": the text was not found");
    return Value::MakeInt(-1);
  }
  return Value::MakeInt(
      static_cast<int64_t>(CountCharacters(std::string_view{text.bytes()}.substr(0, found))));
}

Value Count(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  meter->Read(text.size());
  const std::string part = RequireText(arguments.Get(0), arguments.what()).bytes();
  if (part.empty()) {
    return Value::MakeInt(static_cast<int64_t>(CountCharacters(text.bytes()) + 1));
  }
  int64_t count = 0;
  for (size_t at = text.bytes().find(part); at != std::string::npos;
       at = text.bytes().find(part, at + part.size())) {
    ++count;
  }
  return Value::MakeInt(count);
}

Value Join(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  Text joined;
  bool is_first = true;
  for (const Value& part : Elements(arguments.Get(0), meter)) {
    meter->Make(text.size() + RequireText(part, arguments.what()).size());
    if (!std::exchange(is_first, false)) joined.Append(text);
    joined.Append(part.text());
  }
  return Value::MakeText(std::move(joined));
}

Value ReplaceMethod(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  const Value old = arguments.Get(0);
  const Value replacement = arguments.Get(1);
  return Value::MakeText(Replace(text, RequireText(old, arguments.what()).bytes(),
                                 RequireText(replacement, arguments.what()),
                                 arguments.Integer(2, -1), meter));
}

template <bool kAtEnd>
Value Remove(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  meter->Make(text.size());
  const std::string part = RequireText(arguments.Get(0), arguments.what()).bytes();
  if (kAtEnd && text.bytes().ends_with(part)) {
    return Value::MakeText(text.Part(0, text.size() - part.size()));
  }
  if (!kAtEnd && text.bytes().starts_with(part)) {
    return Value::MakeText(text.Part(part.size(), text.size()));
  }
  return Value::MakeText(text);
}

bool IsAsciiDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsAscii(char32_t c) { return c < 0x80; }

// Whether all characters pass the test. `kOfEmpty`: the answer for an empty text.
template <bool (*kTest)(char32_t), bool kOfEmpty>
Value AllAre(const Text& text, const ArgumentReader& /*arguments*/, Meter* meter) {
  meter->Step(text.size() / 8);
  bool all = kOfEmpty || !text.empty();
  for (size_t at = 0; all && at < text.size();) all = kTest(NextCodePoint(text.bytes(), &at));
  return Value::MakeBool(all);
}

template <bool kFromEnd>
Value PartitionMethod(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  return Partition(text, arguments, kFromEnd, meter);
}

// The width, which Python requires to be a whole number.
int64_t Width(const ArgumentReader& arguments) {
  RequireDefined(arguments.Get(0));
  if (arguments.Get(0).is_none()) Fail(arguments.what() + ": expected a whole number, found None");
  return arguments.Integer(0, 0);
}

template <Alignment kAlignment>
Value Align(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  const Value fill = arguments.Get(1, Value::MakeText(" "));
  return Value::MakeText(
      Aligned(text, kAlignment, Width(arguments), RequireText(fill, arguments.what()), meter));
}

Value ZeroFill(const Text& text, const ArgumentReader& arguments, Meter* meter) {
  return Value::MakeText(ZeroFilled(text, Width(arguments), meter));
}

Value IsSpaceMethod(const Text& text, const ArgumentReader& /*arguments*/, Meter* meter) {
  meter->Read(text.size());
  return Value::MakeBool(!text.empty() && StripBegin(text.bytes(), nullptr) == text.size());
}

template <bool (*kFunction)(std::string_view)>
Value HasCase(const Text& text, const ArgumentReader& /*arguments*/, Meter* meter) {
  meter->Read(text.size());
  return Value::MakeBool(kFunction(text.bytes()));
}

struct MethodEntry {
  std::string_view name;
  Method method;
  std::initializer_list<std::string_view> parameters;
  size_t required;
};

const MethodEntry* FindEntry(std::string_view name) {
  static const MethodEntry entries[] = {
      {"split", &Split, {"sep", "maxsplit"}, 0},
      {"rsplit", &SplitFromEnd, {"sep", "maxsplit"}, 0},
      {"splitlines", &Lines, {"keepends"}, 0},
      {"strip", &StripMethod<true, true>, {"chars"}, 0},
      {"lstrip", &StripMethod<true, false>, {"chars"}, 0},
      {"rstrip", &StripMethod<false, true>, {"chars"}, 0},
      {"startswith", &StartsOrEnds<false>, {"prefix"}, 1},
      {"endswith", &StartsOrEnds<true>, {"suffix"}, 1},
      {"upper", &Case<&Upper>, {}, 0},
      {"lower", &Case<&Lower>, {}, 0},
      {"capitalize", &Case<&Capitalize>, {}, 0},
      {"title", &Case<&Title>, {}, 0},
      {"find", &Find<false, false>, {"sub"}, 1},
      {"rfind", &Find<true, false>, {"sub"}, 1},
      {"index", &Find<false, true>, {"sub"}, 1},
      {"rindex", &Find<true, true>, {"sub"}, 1},
      {"count", &Count, {"sub"}, 1},
      {"join", &Join, {"iterable"}, 1},
      {"replace", &ReplaceMethod, {"old", "new", "count"}, 2},
      {"removeprefix", &Remove<false>, {"prefix"}, 1},
      {"removesuffix", &Remove<true>, {"suffix"}, 1},
      {"partition", &PartitionMethod<false>, {"sep"}, 1},
      {"rpartition", &PartitionMethod<true>, {"sep"}, 1},
      {"center", &Align<Alignment::kCenter>, {"width", "fillchar"}, 1},
      {"ljust", &Align<Alignment::kLeft>, {"width", "fillchar"}, 1},
      {"rjust", &Align<Alignment::kRight>, {"width", "fillchar"}, 1},
      {"zfill", &ZeroFill, {"width"}, 1},
      {"casefold", &Case<&Casefold>, {}, 0},
      {"isalnum", &AllAre<&IsAlnum, false>, {}, 0},
      {"isalpha", &AllAre<&IsAlpha, false>, {}, 0},
      {"isascii", &AllAre<&IsAscii, true>, {}, 0},
      {"isdecimal", &AllAre<&IsDecimal, false>, {}, 0},
      {"isdigit", &AllAre<&IsDigit, false>, {}, 0},
      {"isnumeric", &AllAre<&IsNumeric, false>, {}, 0},
      {"isprintable", &AllAre<&IsPrintable, true>, {}, 0},
      {"isspace", &IsSpaceMethod, {}, 0},
      {"isupper", &HasCase<&IsUpper>, {}, 0},
      {"islower", &HasCase<&IsLower>, {}, 0},
  };
  for (const MethodEntry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// Returns the argument for a replacement field of format(): "{}", "{0}" or "{name}".
Value Field(std::string_view name, size_t* next, const Arguments& arguments) {
  if (name.find_first_of(".[!:") != std::string_view::npos) {
    FailUnsupported("the field {" + std::string(name) + "} of str.format");
  }
  for (const auto& [key, value] : arguments.named) {
    if (key.bytes() == name) return value;
  }
  size_t index = 0;
  if (name.empty()) {
    index = (*next)++;
  } else if (IsAsciiDigits(name) && name.size() < 6) {
    index = static_cast<size_t>(std::stoul(std::string(name)));
  } else {
    Fail("str.format has no argument '" + std::string(name) + "'");
  }
  if (index >= arguments.positional.size()) Fail("str.format has too few arguments");
  return arguments.positional[index];
}

Value Format(const Text& text, const Arguments& arguments, Meter* meter) {
  const std::string& bytes = text.bytes();
  Text result;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    meter->Make(brace - at);
    result.AppendPart(text, at, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      result.AppendPart(text, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const size_t end = bytes.find('}', brace);
    if (bytes[brace] == '}' || end == std::string::npos) Fail("str.format: a brace has no partner");
    const Text field = ToText(
        Field(std::string_view{bytes}.substr(brace + 1, end - brace - 1), &next, arguments), meter);
    meter->Make(field.size());
    result.Append(field);
    at = end + 1;
  }
  return Value::MakeText(std::move(result));
}

}  // namespace

bool IsPythonStringMethod(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kOthers = {
      "encode",    "expandtabs", "format_map", "isidentifier", "istitle",
      "maketrans", "swapcase",   "translate",  "format"};
  return IsStringMethod(name) || std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

bool IsStringMethod(std::string_view name) {
  return name == "format" || FindEntry(name) != nullptr;
}

Value CallStringMethod(const Text& text, std::string_view name, const Arguments& arguments,
                       Meter* meter) {
  if (name == "format") return Format(text, arguments, meter);
  const MethodEntry& entry = *FindEntry(name);
  const ArgumentReader reader("str." + std::string(name), arguments, entry.parameters,
                              entry.required);
  return entry.method(text, reader, meter);
}

Text Replace(const Text& text, std::string_view old, const Text& replacement, int64_t count,
             Meter* meter) {
  meter->Make(text.size());
  Text result;
  size_t begin = 0;
  size_t search = 0;
  while (count != 0) {
    const size_t found = text.bytes().find(old, search);
    if (found == std::string::npos) break;
    meter->Step();
    meter->Make(replacement.size());
    result.AppendPart(text, begin, found);
    result.Append(replacement);
    begin = found + old.size();
    // If `old` is empty, the replacement goes between all characters.
    search = begin;
    if (old.empty()) {
      if (search == text.size()) break;
      ++search;
      while (search < text.size() && IsContinuation(text.bytes()[search])) ++search;
    }
    --count;
  }
  result.AppendPart(text, begin, text.size());
  return result;
}

Text Strip(const Text& text, const Value& chars, bool at_begin, bool at_end, Meter* meter) {
  std::string_view wanted;
  if (!chars.is_none()) wanted = RequireText(chars, "the characters to strip").bytes();
  meter->Make(text.size());
  meter->Step(chars.is_none() ? 0 : text.size() * (1 + wanted.size() / 64));
  const std::string_view* const set = chars.is_none() ? nullptr : &wanted;
  const size_t begin = at_begin ? StripBegin(text.bytes(), set) : 0;
  return text.Part(begin, at_end ? StripEnd(text.bytes(), begin, set) : text.size());
}

std::vector<Text> SplitLines(const Text& text, Meter* meter, bool keeps_ends) {
  meter->Make(text.size());
  const auto ends_line = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = NextCodePoint(text.bytes(), &at);
    if (!ends_line(c)) continue;
    if (c == '\r' && at < text.size() && text.bytes()[at] == '\n') ++at;
    meter->MakeList(1);
    lines.push_back(text.Part(begin, keeps_ends ? at : end));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.Part(begin, text.size()));
  return lines;
}

}  // namespace longstream::chat
