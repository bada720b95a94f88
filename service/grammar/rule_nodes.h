// Makes the automata of a grammar's rules deterministic.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_RULE_NODES_H_
#define LONGSTREAM_SERVICE_GRAMMAR_RULE_NODES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "service/grammar/grammar.h"
#include "service/grammar/rule_states.h"

namespace longstream {

// Which rules match the empty string, and which match any string at all.
struct RuleTraits {
  std::vector<bool> nullable;    // [rules]
  std::vector<bool> productive;  // [rules]
};
RuleTraits TraitsOf(const RuleStates& states);

// The subset construction: a node stands for all states that a string can lead to. A call is taken
// like a byte; a call of a nullable rule may also be skipped.
class RuleNodes {
 public:
  struct Node {
    bool is_end = false;
    std::vector<Grammar::Edge> edges{};  // in rising order
    std::vector<Grammar::Call> calls{};  // in rising order of rules; only of productive rules
  };

  // Makes at most `limit` nodes from sets that have at most `limit` * kStatesPerNode states
  // together. Every node leads to an end of its rule, except the first node of a rule that is not
  // productive.
  RuleNodes(const RuleStates& states, const RuleTraits& traits, size_t limit);

  static constexpr size_t kStatesPerNode = 100;

  // Whether the limits sufficed. False: nothing else may be asked.
  bool ok() const { return ok_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Grammar::Node>& firsts() const { return firsts_; }  // [rules]

 private:
  using State = RuleStates::State;
  using Set = std::vector<State>;  // in rising order

  // The node of the states that can be reached from these without a byte.
  Grammar::Node NodeOf(const Set& from);
  // Adds the edges of a node.
  void Expand(Grammar::Node node);
  void AddBytes(const Set& set, Node* node);
  // Removes the nodes that lead to no end, and numbers the others again.
  void Trim();
  std::vector<bool> LeadToEnd() const;

  const RuleStates& states_;
  const RuleTraits& traits_;
  const size_t limit_;
  bool ok_ = true;
  size_t set_states_ = 0;          // of all sets together
  size_t expanded_ = 0;            // nodes with all their edges
  std::vector<bool> is_last_;      // [states] the last one of its rule
  std::vector<uint32_t> visited_;  // [states] the number of the closure that has visited it
  uint32_t closure_ = 0;
  std::vector<Node> nodes_;
  std::vector<Set> sets_;  // [nodes]
  absl::flat_hash_map<Set, Grammar::Node> numbers_;
  std::vector<Grammar::Node> firsts_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_RULE_NODES_H_
