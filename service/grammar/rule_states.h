// The rules of a grammar as automata that are not deterministic yet.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_RULE_STATES_H_
#define LONGSTREAM_SERVICE_GRAMMAR_RULE_STATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/grammar/grammar_builder.h"

namespace longstream {

// Thompson's construction: an expression becomes states with edges on bytes, on calls and on
// nothing. (K. Thompson, "Regular expression search algorithm", 1968.)
class RuleStates {
 public:
  using State = uint32_t;
  struct ByteEdge {
    uint8_t first = 0;  // both ends are included
    uint8_t last = 0;
    State to = 0;
  };
  struct CallEdge {
    uint32_t rule = 0;
    State to = 0;
  };
  struct Edges {
    std::vector<ByteEdge> bytes{};
    std::vector<CallEdge> calls{};
    std::vector<State> empty{};  // without a byte
  };

  // At most `limit` states are made. Expressions of the builder nest at most kMaxDepth deep.
  RuleStates(const GrammarBuilder& builder, size_t limit);

  static constexpr int kMaxDepth = 2000;

  // Whether the limits sufficed. False: nothing else may be asked.
  bool ok() const { return ok_; }
  size_t size() const { return states_.size(); }
  const Edges& operator[](State state) const { return states_[state]; }
  size_t num_rules() const { return firsts_.size(); }
  State First(uint32_t rule) const { return firsts_[rule]; }
  State Last(uint32_t rule) const { return lasts_[rule]; }

 private:
  State NewState();
  // The expression to repeat in place of `part`: a call of a small rule that calls nothing becomes
  // the rule's expression, because the matcher reads bytes faster than it takes calls.
  GrammarBuilder::Expression WithoutCall(GrammarBuilder::Expression part) const;
  // The number of states of the expression. More than kSmallRule: it is larger, or calls rules.
  size_t StatesOf(GrammarBuilder::Expression expression, int depth) const;

  static constexpr size_t kSmallRule = 100;

  // Adds the states that read the expression from `from` on, and returns the last one.
  State Write(GrammarBuilder::Expression expression, State from, int depth);
  State WriteCharacter(const GrammarBuilder& builder, size_t begin, size_t end, State from);
  State WriteRepeat(GrammarBuilder::Expression part, uint32_t least,
                    const std::optional<uint32_t>& most, State from, int depth);

  const GrammarBuilder& builder_;
  const size_t limit_;
  bool ok_ = true;
  std::vector<Edges> states_;
  std::vector<State> firsts_;  // [rules]
  std::vector<State> lasts_;   // [rules]
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_RULE_STATES_H_
