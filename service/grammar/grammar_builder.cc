// Stores expressions, and compiles them in three steps: states, nodes, tables.
#include "service/grammar/grammar_builder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/grammar/rule_nodes.h"
#include "service/grammar/rule_states.h"

namespace longstream {

// Fills the tables of a grammar.
class GrammarAssembly {
 public:
  static Grammar Assemble(uint32_t start, const RuleTraits& traits, const RuleNodes& nodes) {
    Grammar grammar;
    grammar.start_rule_ = start;
    grammar.firsts_ = nodes.firsts();
    grammar.nullable_ = traits.nullable;
    for (const RuleNodes::Node& node : nodes.nodes()) {
      grammar.ends_.push_back(node.is_end);
      grammar.edges_.insert(grammar.edges_.end(), node.edges.begin(), node.edges.end());
      grammar.calls_.insert(grammar.calls_.end(), node.calls.begin(), node.calls.end());
      grammar.edges_begin_.push_back(static_cast<uint32_t>(grammar.edges_.size()));
      grammar.calls_begin_.push_back(static_cast<uint32_t>(grammar.calls_.size()));
    }
    return grammar;
  }
};

GrammarBuilder::Expression GrammarBuilder::Add(Part part) {
  parts_.push_back(part);
  return {static_cast<uint32_t>(parts_.size() - 1)};
}

GrammarBuilder::Expression GrammarBuilder::AddOperands(Kind kind,
                                                       absl::Span<const Expression> operands) {
  const size_t begin = operands_.size();
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  return Add({.kind = kind, .begin = begin, .end = operands_.size()});
}

GrammarBuilder::Expression GrammarBuilder::Empty() { return Sequence({}); }

GrammarBuilder::Expression GrammarBuilder::Literal(std::string_view bytes) {
  const size_t begin = bytes_.size();
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return Add({.kind = Kind::kLiteral, .begin = begin, .end = bytes_.size()});
}

GrammarBuilder::Expression GrammarBuilder::Character(absl::Span<const CodePoints> ranges) {
  const size_t begin = characters_.size();
  const std::vector<CodePoints> normalized = Normalized(ranges);
  characters_.insert(characters_.end(), normalized.begin(), normalized.end());
  return Add({.kind = Kind::kCharacter, .begin = begin, .end = characters_.size()});
}

GrammarBuilder::Expression GrammarBuilder::CharacterExcept(absl::Span<const CodePoints> ranges) {
  return Character(Complement(ranges));
}

GrammarBuilder::Expression GrammarBuilder::Sequence(absl::Span<const Expression> parts) {
  return AddOperands(Kind::kSequence, parts);
}

GrammarBuilder::Expression GrammarBuilder::Choice(absl::Span<const Expression> options) {
  return AddOperands(Kind::kChoice, options);
}

GrammarBuilder::Expression GrammarBuilder::Repeat(Expression part, uint32_t least,
                                                  std::optional<uint32_t> most) {
  const Expression repeat = AddOperands(Kind::kRepeat, {part});
  parts_.back().least = least;
  parts_.back().most = most;
  return repeat;
}

GrammarBuilder::Rule GrammarBuilder::Declare() {
  rules_.emplace_back();
  return {static_cast<uint32_t>(rules_.size() - 1)};
}

void GrammarBuilder::Define(Rule rule, Expression expression) { rules_[rule.index] = expression; }

GrammarBuilder::Expression GrammarBuilder::Call(Rule rule) {
  return Add({.kind = Kind::kCall, .least = rule.index});
}

GrammarBuilder::Expression GrammarBuilder::Named(Expression expression) {
  const Rule rule = Declare();
  Define(rule, expression);
  return Call(rule);
}

absl::StatusOr<Grammar> GrammarBuilder::Build(Rule start, const GrammarLimits& limits) const {
  const auto too_large = [](size_t limit, const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the grammar is too large: it needs more than ", limit, " ", what,
                     " (counted repetitions of long parts take the most)"));
  };
  const RuleStates states(*this, limits.states);
  if (!states.ok()) return too_large(limits.states, "states");
  const RuleTraits traits = TraitsOf(states);
  if (!traits.productive[start.index]) {
    return absl::InvalidArgumentError("no text fits the grammar");
  }
  const RuleNodes nodes(states, traits, limits.nodes);
  if (!nodes.ok()) return too_large(limits.nodes, "nodes");
  return GrammarAssembly::Assemble(start.index, traits, nodes);
}

}  // namespace longstream
