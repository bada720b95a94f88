// A compiled grammar: a set of byte strings, as automata that call each other.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_GRAMMAR_H_
#define LONGSTREAM_SERVICE_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace longstream {

// Each rule is a deterministic automaton over bytes whose nodes may also call rules. A string fits
// a rule if a path from the rule's first node to one of its ends reads it; a call on the path reads
// a string of the rule that it calls. Immutable, thread-safe.
class Grammar {
 public:
  // The nodes of all rules have numbers from 0 on.
  using Node = uint32_t;
  static constexpr Node kNoNode = ~Node{0};

  // A node's edges on bytes, in rising order, disjoint.
  struct Edge {
    uint8_t first = 0;  // both ends are included
    uint8_t last = 0;
    Node to = kNoNode;
  };
  struct Call {
    uint32_t rule = 0;
    Node to = kNoNode;  // where the caller goes on
  };

  uint32_t start_rule() const { return start_rule_; }
  size_t num_rules() const { return firsts_.size(); }
  size_t num_nodes() const { return edges_begin_.size() - 1; }
  // Bytes of memory.
  size_t bytes() const;

  Node First(uint32_t rule) const { return firsts_[rule]; }
  // Whether the rule matches the empty string.
  bool IsNullable(uint32_t rule) const { return nullable_[rule]; }
  // Whether the node's rule may end there.
  bool IsEnd(Node node) const { return ends_[node]; }
  absl::Span<const Edge> Edges(Node node) const {
    return absl::MakeSpan(edges_.data() + edges_begin_[node],
                          edges_begin_[node + 1] - edges_begin_[node]);
  }
  absl::Span<const Call> Calls(Node node) const {
    return absl::MakeSpan(calls_.data() + calls_begin_[node],
                          calls_begin_[node + 1] - calls_begin_[node]);
  }
  // Where the byte leads; kNoNode: nowhere.
  Node Next(Node node, uint8_t byte) const {
    for (uint32_t i = edges_begin_[node]; i < edges_begin_[node + 1]; ++i) {
      if (byte <= edges_[i].last) return byte >= edges_[i].first ? edges_[i].to : kNoNode;
    }
    return kNoNode;
  }

 private:
  friend class GrammarAssembly;  // grammar_builder.cc

  uint32_t start_rule_ = 0;
  std::vector<Node> firsts_;              // [rules]
  std::vector<bool> nullable_;            // [rules]
  std::vector<bool> ends_;                // [nodes]
  std::vector<uint32_t> edges_begin_{0};  // [nodes + 1]
  std::vector<uint32_t> calls_begin_{0};  // [nodes + 1]
  std::vector<Edge> edges_;
  std::vector<Call> calls_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_GRAMMAR_H_
