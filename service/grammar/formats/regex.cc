// Makes expressions from the syntax tree of a pattern, in three steps: remove the anchors, limit
// the lengths, convert.
#include "service/grammar/formats/regex.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/grammar/formats/format_error.h"
#include "service/grammar/formats/regex_syntax.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;
using NodeKind = RegexNode::Kind;

[[noreturn]] void FailAt(const RegexNode& node, std::string_view text) {
  FailFormat(absl::StrCat("at byte ", node.offset, ": ", std::string(text)));
}

// The position of a node in the whole pattern, at its left or right side.
enum class Side {
  kInner,     // other characters of the pattern may be there
  kAnchored,  // the begin or the end of the string
  kOpen,      // the begin or the end of the pattern; any characters may be there
};

RegexNode AnyCharacters(size_t offset) {
  RegexNode any;
  any.kind = NodeKind::kCharacters;
  any.characters = Complement({});
  RegexNode node;
  node.kind = NodeKind::kRepeat;
  node.offset = offset;
  node.parts.push_back(std::move(any));
  return node;
}

// Removes the anchors of a pattern, and adds any characters at its open sides.
class AnchorRemover {
 public:
  static RegexNode Remove(RegexNode node, Side left, Side right) {
    switch (node.kind) {
      case NodeKind::kChoice:
        for (RegexNode& part : node.parts) part = Remove(std::move(part), left, right);
        return node;
      case NodeKind::kSequence:
        return RemoveInSequence(std::move(node), left, right);
      case NodeKind::kBegin:
      case NodeKind::kEnd: {
        RegexNode sequence;
        sequence.offset = node.offset;
        sequence.parts.push_back(std::move(node));
        return RemoveInSequence(std::move(sequence), left, right);
      }
      case NodeKind::kRepeat:
        node.parts[0] = Remove(std::move(node.parts[0]), Side::kInner, Side::kInner);
        return Extended(std::move(node), left, right);
      case NodeKind::kCharacters:
        return Extended(std::move(node), left, right);
    }
    return node;
  }

 private:
  static RegexNode Extended(RegexNode node, Side left, Side right) {
    if (left != Side::kOpen && right != Side::kOpen) return node;
    RegexNode sequence;
    sequence.offset = node.offset;
    if (left == Side::kOpen) sequence.parts.push_back(AnyCharacters(node.offset));
    sequence.parts.push_back(std::move(node));
    if (right == Side::kOpen) sequence.parts.push_back(AnyCharacters(sequence.offset));
    return sequence;
  }

  static RegexNode RemoveInSequence(RegexNode node, Side left, Side right) {
    size_t begin = 0;
    size_t end = node.parts.size();
    for (; begin < end && node.parts[begin].kind == NodeKind::kBegin; ++begin) {
      if (left == Side::kInner) FailAt(node.parts[begin], kWrongBegin);
      left = Side::kAnchored;
    }
    for (; begin < end && node.parts[end - 1].kind == NodeKind::kEnd; --end) {
      if (right == Side::kInner) FailAt(node.parts[end - 1], kWrongEnd);
      right = Side::kAnchored;
    }
    RegexNode result;
    result.offset = node.offset;
    if (begin == end) {
      const bool is_open = left == Side::kOpen || right == Side::kOpen;
      if (is_open) result.parts.push_back(AnyCharacters(node.offset));
      return result;
    }
    for (size_t i = begin; i < end; ++i) {
      RegexNode& part = node.parts[i];
      if (part.kind == NodeKind::kBegin) FailAt(part, kWrongBegin);
      if (part.kind == NodeKind::kEnd) FailAt(part, kWrongEnd);
      result.parts.push_back(Remove(std::move(part), i == begin ? left : Side::kInner,
                                    i + 1 == end ? right : Side::kInner));
    }
    return result;
  }

  static constexpr std::string_view kWrongBegin = "^ is only supported at the begin of the pattern";
  static constexpr std::string_view kWrongEnd = "$ is only supported at the end of the pattern";
};

// The lengths of the strings that a node matches. Without a limit, `most` is kUnlimited.
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

uint64_t Sum(uint64_t a, uint64_t b) { return a > kUnlimited - b ? kUnlimited : a + b; }
uint64_t Product(uint64_t a, uint64_t b) {
  return b != 0 && a > kUnlimited / b ? kUnlimited : a * b;
}

struct Lengths {
  uint64_t least = 0;
  uint64_t most = 0;

  bool operator==(const Lengths&) const = default;
  bool AreIn(const Lengths& other) const { return least >= other.least && most <= other.most; }
};

Lengths LengthsOf(const RegexNode& node) {
  Lengths lengths;
  switch (node.kind) {
    case NodeKind::kCharacters:
      return {1, 1};
    case NodeKind::kChoice:
      lengths = {kUnlimited, 0};
      for (const RegexNode& part : node.parts) {
        const Lengths one = LengthsOf(part);
        lengths = {std::min(lengths.least, one.least), std::max(lengths.most, one.most)};
      }
      return lengths;
    case NodeKind::kRepeat:
      lengths = LengthsOf(node.parts[0]);
      return {Product(lengths.least, node.least),
              lengths.most == 0 ? 0 : Product(lengths.most, node.most.value_or(kUnlimited))};
    default:
      for (const RegexNode& part : node.parts) {
        const Lengths one = LengthsOf(part);
        lengths = {Sum(lengths.least, one.least), Sum(lengths.most, one.most)};
      }
      return lengths;
  }
}

bool IsRepeatedCharacter(const RegexNode& node) {
  return node.kind == NodeKind::kRepeat && node.parts[0].kind == NodeKind::kCharacters;
}

// Joins the parts of inner sequences to one list.
void Flatten(RegexNode node, std::vector<RegexNode>* parts) {
  if (node.kind != NodeKind::kSequence) return parts->push_back(std::move(node));
  for (RegexNode& part : node.parts) Flatten(std::move(part), parts);
}

constexpr std::string_view kNoLength = "no string that matches the pattern has an allowed length";

// Reduces the strings of a node to those with a length in `wanted`. Without anchors.
void LimitLengths(const Lengths& wanted, RegexNode* node) {
  const Lengths lengths = LengthsOf(*node);
  if (lengths.AreIn(wanted)) return;
  if (node->kind == NodeKind::kChoice) {
    std::erase_if(node->parts, [&wanted](const RegexNode& part) {
      const Lengths one = LengthsOf(part);
      return one.most < wanted.least || one.least > wanted.most;
    });
    if (node->parts.empty()) FailFormat(std::string(kNoLength));
    for (RegexNode& part : node->parts) LimitLengths(wanted, &part);
    return;
  }
  std::vector<RegexNode> parts;
  Flatten(std::move(*node), &parts);
  if (parts.size() == 1 && parts[0].kind == NodeKind::kChoice) {
    *node = std::move(parts[0]);
    return LimitLengths(wanted, node);
  }
  RegexNode* varying = nullptr;
  uint64_t others = 0;
  for (RegexNode& part : parts) {
    const Lengths one = LengthsOf(part);
    if (one.least == one.most) {
      others = Sum(others, one.least);
    } else if (varying == nullptr && IsRepeatedCharacter(part)) {
      varying = &part;
    } else {
      FailFormat(
          "the lengths of the strings are limited, which is not supported with this pattern");
    }
  }
  const bool fits = lengths.least <= wanted.most && lengths.most >= wanted.least;
  if (!fits) FailFormat(std::string(kNoLength));
  constexpr uint64_t kMostCount = std::numeric_limits<uint32_t>::max();
  const uint64_t least = wanted.least > others ? wanted.least - others : 0;
  if (least > kMostCount) FailFormat("the least length is too large");
  varying->least = std::max(varying->least, static_cast<uint32_t>(least));
  if (wanted.most != kUnlimited) {
    const uint64_t most = std::min<uint64_t>(wanted.most - others, kMostCount);
    varying->most = std::min(varying->most.value_or(kMostCount), static_cast<uint32_t>(most));
  }
  *node = RegexNode();
  node->parts = std::move(parts);
}

class Converter {
 public:
  Converter(GrammarBuilder& builder, const RegexUse& use) : builder_(builder), use_(use) {}

  Expression Convert(const RegexNode& node) {
    switch (node.kind) {
      case NodeKind::kCharacters:
        return Character(node.characters, /*is_repeated=*/false);
      case NodeKind::kRepeat:
        return Repeat(node);
      default:
        break;
    }
    std::vector<Expression> parts;
    parts.reserve(node.parts.size());
    for (const RegexNode& part : node.parts) parts.push_back(Convert(part));
    return node.kind == NodeKind::kChoice ? builder_.Choice(parts) : builder_.Sequence(parts);
  }

 private:
  Expression Repeat(const RegexNode& node) {
    const RegexNode& part = node.parts[0];
    constexpr uint32_t kMany = 16;
    const bool is_many = std::max(node.least, node.most.value_or(0)) > kMany;
    const Expression repeated =
        part.kind == NodeKind::kCharacters ? Character(part.characters, is_many) : Convert(part);
    return builder_.Repeat(repeated, node.least, node.most);
  }

  // One character of a set. A set that needs many nodes becomes a rule, and so does each set of
  // several bytes that is repeated many times.
  Expression Character(const CodePointSet& set, bool is_repeated) {
    constexpr size_t kManyRanges = 16;
    const bool is_ascii = set.empty() || set.back().last < 0x80;
    const bool is_rule = set.size() > kManyRanges || (is_repeated && !is_ascii);
    std::u32string key(1, is_rule ? U'1' : U'0');
    for (const CodePoints& range : set) {
      key.push_back(range.first);
      key.push_back(range.last);
    }
    const auto [known, is_new] = characters_.try_emplace(std::move(key));
    if (is_new) {
      const Expression one = use_.character ? use_.character(set) : builder_.Character(set);
      known->second = is_rule ? builder_.Named(one) : one;
    }
    return known->second;
  }

  GrammarBuilder& builder_;
  const RegexUse& use_;
  std::map<std::u32string, Expression> characters_;
};

}  // namespace

absl::StatusOr<Expression> AddRegex(GrammarBuilder& builder, std::string_view pattern,
                                    const RegexUse& use) {
  try {
    const Side side = use.is_search ? Side::kOpen : Side::kAnchored;
    RegexNode node = AnchorRemover::Remove(ParseRegex(pattern), side, side);
    LimitLengths({use.least_length, use.most_length.value_or(kUnlimited)}, &node);
    return Converter(builder, use).Convert(node);
  } catch (const FormatError& error) {
    return absl::InvalidArgumentError(error.message);
  }
}

}  // namespace longstream
