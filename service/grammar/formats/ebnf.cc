// Parses a grammar by recursive descent, and makes the expressions at once.
#include "service/grammar/formats/ebnf.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/grammar/formats/ebnf_reader.h"
#include "service/grammar/formats/format_error.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

constexpr size_t kMostGrammarBytes = 1 << 20;
constexpr size_t kMostRules = 20'000;
constexpr int kMostGroups = 100;

class EbnfParser {
 public:
  EbnfParser(GrammarBuilder& builder, std::string_view grammar)
      : builder_(builder), reader_(grammar) {}

  Expression Parse() {
    for (reader_.SkipSpace(true); !reader_.AtEnd(); reader_.SkipSpace(true)) ParseRule();
    for (const Rule& rule : rules_) {
      if (!rule.is_defined) {
        reader_.FailAt(rule.offset, absl::StrCat("the rule ", Shown(rule.name), " is not defined"));
      }
    }
    const auto root = indexes_.find("root");
    if (root == indexes_.end()) FailFormat("the grammar has no rule named root");
    return builder_.Call(rules_[root->second].rule);
  }

 private:
  struct Rule {
    std::string_view name;
    size_t offset = 0;  // where the name occurs first
    GrammarBuilder::Rule rule;
    bool is_defined = false;
  };

  void ParseRule() {
    const size_t offset = reader_.offset();
    const std::string_view name = reader_.ReadName();
    if (name.empty()) reader_.Fail(absl::StrCat("expected a rule's name, found ", reader_.Next()));
    reader_.SkipSpace(false);
    if (!reader_.Skip("::=")) reader_.Fail(absl::StrCat("expected ::=, found ", reader_.Next()));
    const size_t index = RuleOf(name, offset);
    if (rules_[index].is_defined) {
      reader_.FailAt(offset, absl::StrCat("the rule ", Shown(name), " is defined twice"));
    }
    rules_[index].is_defined = true;
    reader_.SkipSpace(true);
    const Expression expression = ParseChoice(/*depth=*/0);
    builder_.Define(rules_[index].rule, expression);
    const bool is_end = reader_.AtLineEnd() || reader_.AtLineBegin();
    if (!is_end) reader_.Fail(absl::StrCat("unexpected ", reader_.Next()));
  }

  size_t RuleOf(std::string_view name, size_t offset) {
    const auto [found, is_new] = indexes_.try_emplace(name, rules_.size());
    if (is_new) {
      if (rules_.size() == kMostRules) {
        reader_.FailAt(offset, absl::StrCat("the grammar has more than ", kMostRules, " rules"));
      }
      rules_.push_back({name, offset, builder_.Declare()});
    }
    return found->second;
  }

  Expression ParseChoice(int depth) {
    std::vector<Expression> options = {ParseSequence(depth)};
    while (SkipBar(depth)) options.push_back(ParseSequence(depth));
    return builder_.Choice(options);
  }

  // Skips a '|', which may stand in the next line.
  bool SkipBar(int depth) {
    const size_t offset = reader_.offset();
    reader_.SkipSpace(true);
    if (reader_.Skip("|")) {
      reader_.SkipSpace(true);
      return true;
    }
    if (depth == 0) reader_.MoveTo(offset);
    return false;
  }

  Expression ParseSequence(int depth) {
    const bool in_group = depth > 0;
    std::vector<Expression> items;
    reader_.SkipSpace(in_group);
    // The name of the next rule may stand after an empty sequence.
    while (!AtRule()) {
      const std::optional<Expression> item = ParseItem(depth);
      if (!item.has_value()) break;
      items.push_back(ParseRepeats(*item, in_group));
      reader_.SkipSpace(in_group);
    }
    return builder_.Sequence(items);
  }

  bool AtRule() {
    const size_t offset = reader_.offset();
    const bool has_name = !reader_.ReadName().empty();
    reader_.SkipSpace(false);
    const bool is_rule = has_name && reader_.Sees("::=");
    reader_.MoveTo(offset);
    return is_rule;
  }

  // nullopt: no item is next.
  std::optional<Expression> ParseItem(int depth) {
    const size_t offset = reader_.offset();
    if (reader_.Skip("\"")) return builder_.Literal(reader_.ReadLiteral());
    if (reader_.Skip("[")) return builder_.Character(reader_.ReadClass());
    if (reader_.Skip(".")) return builder_.CharacterExcept({});
    if (reader_.Skip("(")) {
      if (depth == kMostGroups) {
        reader_.FailAt(offset,
                       absl::StrCat("groups are nested deeper than ", kMostGroups, " levels"));
      }
      reader_.SkipSpace(true);
      const Expression group = ParseChoice(depth + 1);
      if (!reader_.Skip(")")) {
        reader_.Fail(absl::StrCat("expected an item or ')', found ", reader_.Next()));
      }
      return group;
    }
    const std::string_view name = reader_.ReadName();
    if (name.empty()) return std::nullopt;
    return builder_.Call(rules_[RuleOf(name, offset)].rule);
  }

  Expression ParseRepeats(Expression item, bool in_group) {
    for (int repeats = 0;; ++repeats) {
      const size_t offset = reader_.offset();
      reader_.SkipSpace(in_group);
      uint32_t least = 0;
      std::optional<uint32_t> most;
      const size_t sign = reader_.offset();
      if (reader_.Skip("?")) {
        most = 1;
      } else if (reader_.Skip("+")) {
        least = 1;
      } else if (reader_.Skip("{")) {
        reader_.ReadCount(&least, &most);
      } else if (!reader_.Skip("*")) {
        reader_.MoveTo(offset);
        return item;
      }
      if (repeats > 0) reader_.FailAt(sign, "an item is repeated twice; use a group");
      item = builder_.Repeat(item, least, most);
    }
  }

  GrammarBuilder& builder_;
  EbnfReader reader_;
  std::vector<Rule> rules_;
  absl::flat_hash_map<std::string_view, size_t> indexes_;
};

}  // namespace

absl::StatusOr<Expression> AddEbnf(GrammarBuilder& builder, std::string_view grammar) {
  try {
    if (grammar.size() > kMostGrammarBytes) {
      FailFormat(absl::StrCat("the grammar has ", grammar.size(), " bytes, more than ",
                              kMostGrammarBytes));
    }
    const size_t valid = ValidUtf8Prefix(grammar);
    if (valid < grammar.size()) FailFormat(absl::StrCat("at byte ", valid, ": this is no UTF-8"));
    return EbnfParser(builder, grammar).Parse();
  } catch (const FormatError& error) {
    return absl::InvalidArgumentError(error.message);
  }
}

}  // namespace longstream
