// A token's bytes and white space are part of the automaton that needs them. Strings, numbers and
// nested values are rules, which it calls.
#include "service/grammar/formats/json_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/code_points.h"
#include "service/grammar/formats/counted.h"
#include "service/grammar/formats/number_range.h"
#include "service/grammar/formats/string_tree.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

constexpr uint32_t kMostIndent = 20;

// Characters that a string has as they are, without an escape.
CodePointSet RawCharacters() { return {{' ', '!'}, {'#', '['}, {']', kMaxCodePoint}}; }
CodePointSet RawAscii() { return {{' ', '!'}, {'#', '['}, {']', '~'}}; }
CodePointSet EscapedCharacters() { return {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}; }

void AppendEscaped(char c, std::string* text) {
  constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i < kShort.size(); i += 2) {
    if (kShort[i] == c) {
      text->push_back('\\');
      text->push_back(kShort[i + 1]);
      return;
    }
  }
  if (static_cast<unsigned char>(c) >= ' ') {
    text->push_back(c);
  } else {
    absl::StrAppend(text, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
  }
}

// The escapes of AppendEscaped for the characters of a set.
Expression Escapes(GrammarBuilder& builder, const CodePointSet& set) {
  if (set == Normalized(EscapedCharacters())) {
    const Expression hex = builder.Character({{'0', '9'}, {'a', 'f'}});
    const Expression low = builder.Character({{'0', '7'}, {'b', 'b'}, {'e', 'f'}});
    const Expression number = builder.Choice({builder.Sequence({builder.Literal("0"), low}),
                                              builder.Sequence({builder.Literal("1"), hex})});
    const Expression sign = builder.Character(
        {{'"', '"'}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
    return builder.Sequence(
        {builder.Literal("\\"),
         builder.Choice({sign, builder.Sequence({builder.Literal("u00"), number})})});
  }
  std::vector<Expression> options;
  for (const CodePoints& range : set) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      std::string text;
      AppendEscaped(static_cast<char>(c), &text);
      options.push_back(builder.Literal(text));
    }
  }
  return builder.Choice(options);
}

}  // namespace

std::string JsonString(std::string_view decoded) {
  std::string text = "\"";
  for (const char c : decoded) AppendEscaped(c, &text);
  return text + "\"";
}

Expression AddAnyJsonObject(GrammarBuilder& builder) { return JsonText(builder).Object(); }
Expression AddAnyJsonValue(GrammarBuilder& builder) { return JsonText(builder).Value(); }

Expression JsonText::Space() {
  if (!space_.has_value()) {
    const Expression blank = builder_.Character({{'\t', '\t'}, {' ', ' '}});
    const Expression indent = builder_.Named(builder_.Repeat(blank, 1, kMostIndent));
    space_ = Choice({builder_.Empty(), builder_.Literal(" "), builder_.Literal("\n"),
                     Sequence({builder_.Literal("\n"), indent})});
  }
  return *space_;
}

Expression JsonText::List(std::string_view open, Expression part, uint32_t least,
                          std::optional<uint32_t> most, std::string_view close) {
  const Expression begin = Token(open);
  const Expression end = builder_.Literal(close);
  if (most == 0) return Sequence({begin, end});
  const Expression more =
      Counted(builder_, Sequence({Comma(), part}), std::max<uint32_t>(least, 1) - 1,
              most.has_value() ? std::optional(*most - 1) : std::nullopt);
  const Expression parts = Sequence({part, more, Space()});
  return Sequence({begin, least == 0 ? builder_.Optional(parts) : parts, end});
}

Expression JsonText::Value() {
  if (!value_.has_value()) {
    value_ = builder_.Declare();
    builder_.Define(*value_, Choice({ObjectBody(), ArrayBody(),
                                     Sequence({builder_.Literal("\""), StringRest()}), Number(),
                                     builder_.Literal("true"), builder_.Literal("false"),
                                     builder_.Literal("null")}));
  }
  return builder_.Call(*value_);
}

Expression JsonText::Object() {
  if (!object_.has_value()) object_ = builder_.Named(ObjectBody());
  return *object_;
}

Expression JsonText::Array() {
  if (!array_.has_value()) array_ = builder_.Named(ArrayBody());
  return *array_;
}

Expression JsonText::String() {
  if (!string_.has_value()) {
    string_ = builder_.Named(Sequence({builder_.Literal("\""), StringRest()}));
  }
  return *string_;
}

Expression JsonText::Number() {
  if (!number_.has_value()) number_ = builder_.Named(*AddNumbers(builder_, {}));
  return *number_;
}

Expression JsonText::String(uint32_t least, std::optional<uint32_t> most) {
  if (least == 0 && !most.has_value()) return String();
  const auto [known, is_new] = strings_.try_emplace({least, most});
  if (is_new) {
    const Expression quote = builder_.Literal("\"");
    known->second =
        builder_.Named(Sequence({quote, Counted(builder_, AnyCharacter(), least, most), quote}));
  }
  return known->second;
}

Expression JsonText::AnyCharacter() {
  if (any_character_.has_value()) return *any_character_;
  const auto hex = [this](uint32_t count) {
    const Expression digit = builder_.Character({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
    return builder_.Repeat(digit, count, count);
  };
  const Expression d = builder_.Character({{'D', 'D'}, {'d', 'd'}});
  // Half of a surrogate pair is no character.
  const Expression single = Sequence(
      {builder_.Character({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), hex(3)});
  const Expression below = Sequence({d, builder_.Character({{'0', '7'}}), hex(2)});
  const Expression pair =
      Sequence({d, builder_.Character({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hex(2),
                builder_.Literal("\\u"), d, builder_.Character({{'C', 'F'}, {'c', 'f'}}), hex(2)});
  const Expression sign = builder_.Character({{'"', '"'},
                                              {'/', '/'},
                                              {'\\', '\\'},
                                              {'b', 'b'},
                                              {'f', 'f'},
                                              {'n', 'n'},
                                              {'r', 'r'},
                                              {'t', 't'}});
  const Expression code = Sequence({builder_.Literal("u"), Choice({single, below, pair})});
  any_character_ = Choice({builder_.Character(RawCharacters()),
                           Sequence({builder_.Literal("\\"), Choice({sign, code})})});
  return *any_character_;
}

Expression JsonText::StringRest() {
  if (!string_rest_.has_value()) {
    string_rest_ = builder_.Named(
        Sequence({builder_.Repeat(AnyCharacter(), 0, std::nullopt), builder_.Literal("\"")}));
  }
  return *string_rest_;
}

Expression JsonText::Character(absl::Span<const CodePoints> ranges) {
  const CodePointSet set = Normalized(ranges);
  const CodePointSet escaped = IntersectionOf(set, EscapedCharacters());
  const Expression raw = builder_.Character(IntersectionOf(set, RawCharacters()));
  return escaped.empty() ? raw : Choice({raw, Escapes(builder_, escaped)});
}

Expression JsonText::PlainRest() {
  if (!plain_rest_.has_value()) {
    const Expression any = Character(Complement({}));
    plain_rest_ =
        builder_.Named(Sequence({builder_.Repeat(any, 0, std::nullopt), builder_.Literal("\"")}));
  }
  return *plain_rest_;
}

Expression JsonText::OtherRest() {
  if (!other_rest_.has_value()) {
    other_rest_ = builder_.Named(Sequence({Character(Complement(RawAscii())), PlainRest()}));
  }
  return *other_rest_;
}

std::optional<Expression> JsonText::StringExcept(absl::Span<const std::string_view> decoded) {
  constexpr size_t kMostNodes = 50'000;
  // Expressions may not nest too deeply, so some levels of the tree are rules.
  constexpr size_t kLevelsOfRule = 32;
  StringTree tree;
  for (const std::string_view text : decoded) {
    if (!tree.Add(text, kMostNodes)) return std::nullopt;
  }
  const CodePointSet plain = RawAscii();
  std::vector<Expression> rests(tree.size());
  // Children come after their parents.
  for (size_t i = tree.size(); i-- > 0;) {
    const StringTree::Node& node = tree[i];
    std::vector<Expression> options;
    CodePointSet next;
    for (const auto& [c, child] : node.children) {
      next.push_back({c, c});
      options.push_back(Sequence({Character({{c, c}}), rests[child]}));
    }
    const bool is_plain = IntersectionOf(next, plain).size() == next.size();
    const CodePointSet others = Complement(next);
    if (is_plain) {
      options.push_back(Sequence({builder_.Character(IntersectionOf(others, plain)), PlainRest()}));
      options.push_back(OtherRest());
    } else {
      options.push_back(Sequence({Character(others), PlainRest()}));
    }
    if (!node.is_end) options.push_back(builder_.Literal("\""));
    rests[i] = Choice(options);
    if (node.depth > 0 && node.depth % kLevelsOfRule == 0) rests[i] = builder_.Named(rests[i]);
  }
  return Sequence({builder_.Literal("\""), rests[0]});
}

}  // namespace longstream
