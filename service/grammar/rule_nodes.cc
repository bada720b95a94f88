// The subset construction over bytes and calls.
#include "service/grammar/rule_nodes.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <utility>

namespace longstream {
namespace {

using State = RuleStates::State;

// Returns for each rule whether a path leads from its first state to its last one. Such a path has
// empty edges, calls of rules for which this holds, and byte edges if `with_bytes`. Takes linear
// time: a call waits until a path through its rule has been found.
std::vector<bool> HavePath(const RuleStates& states, bool with_bytes) {
  std::vector<bool> found(states.num_rules(), false);
  std::vector<bool> reached(states.size(), false);
  std::vector<std::vector<State>> waiting(states.num_rules());  // the states behind such calls
  std::vector<std::vector<uint32_t>> rules_of_last(states.size());
  std::vector<State> work;
  const auto reach = [&](State state) {
    if (reached[state]) return;
    reached[state] = true;
    work.push_back(state);
  };
  for (uint32_t rule = 0; rule < states.num_rules(); ++rule) {
    rules_of_last[states.Last(rule)].push_back(rule);
    reach(states.First(rule));
  }
  while (!work.empty()) {
    const State state = work.back();
    work.pop_back();
    for (const State to : states[state].empty) reach(to);
    if (with_bytes) {
      for (const RuleStates::ByteEdge& edge : states[state].bytes) reach(edge.to);
    }
    for (const RuleStates::CallEdge& call : states[state].calls) {
      if (found[call.rule]) {
        reach(call.to);
      } else {
        waiting[call.rule].push_back(call.to);
      }
    }
    for (const uint32_t rule : rules_of_last[state]) {
      found[rule] = true;
      for (const State behind : std::exchange(waiting[rule], {})) reach(behind);
    }
  }
  return found;
}

}  // namespace

RuleTraits TraitsOf(const RuleStates& states) {
  return {HavePath(states, /*with_bytes=*/false), HavePath(states, /*with_bytes=*/true)};
}

RuleNodes::RuleNodes(const RuleStates& states, const RuleTraits& traits, size_t limit)
    : states_(states),
      traits_(traits),
      limit_(limit),
      is_last_(states.size(), false),
      visited_(states.size(), 0) {
  for (uint32_t rule = 0; rule < states.num_rules(); ++rule) is_last_[states.Last(rule)] = true;
  for (uint32_t rule = 0; rule < states.num_rules() && ok_; ++rule) {
    firsts_.push_back(NodeOf({states.First(rule)}));
    for (auto node = static_cast<Grammar::Node>(expanded_); node < nodes_.size() && ok_; ++node) {
      Expand(node);
    }
    expanded_ = nodes_.size();
  }
  if (ok_) Trim();
}

Grammar::Node RuleNodes::NodeOf(const Set& from) {
  ++closure_;
  Set reached, kept;
  const auto reach = [&](State state) {
    if (std::exchange(visited_[state], closure_) != closure_) reached.push_back(state);
  };
  for (const State state : from) reach(state);
  for (size_t i = 0; i < reached.size(); ++i) {
    const RuleStates::Edges& edges = states_[reached[i]];
    for (const State to : edges.empty) reach(to);
    for (const RuleStates::CallEdge& call : edges.calls) {
      if (traits_.nullable[call.rule]) reach(call.to);
    }
    if (!edges.bytes.empty() || !edges.calls.empty() || is_last_[reached[i]]) {
      kept.push_back(reached[i]);
    }
  }
  set_states_ += reached.size();
  ok_ = ok_ && set_states_ <= limit_ * kStatesPerNode;
  std::sort(kept.begin(), kept.end());
  const auto [it, is_new] = numbers_.try_emplace(kept, static_cast<Grammar::Node>(nodes_.size()));
  if (is_new) {
    ok_ = ok_ && nodes_.size() < limit_;
    Node node;
    node.is_end = std::any_of(kept.begin(), kept.end(), [&](State s) { return is_last_[s]; });
    nodes_.push_back(std::move(node));
    sets_.push_back(std::move(kept));
  }
  return it->second;
}

void RuleNodes::Expand(Grammar::Node number) {
  const Set set = std::move(sets_[number]);
  Node node;
  AddBytes(set, &node);
  std::map<uint32_t, Set> behind_calls;
  for (const State state : set) {
    for (const RuleStates::CallEdge& call : states_[state].calls) {
      if (traits_.productive[call.rule]) behind_calls[call.rule].push_back(call.to);
    }
  }
  for (const auto& [rule, behind] : behind_calls) {
    if (!ok_) return;
    node.calls.push_back({rule, NodeOf(behind)});
  }
  node.is_end = nodes_[number].is_end;
  nodes_[number] = std::move(node);
}

void RuleNodes::AddBytes(const Set& set, Node* node) {
  std::bitset<257> begins;  // where the states behind a byte may change
  for (const State state : set) {
    for (const RuleStates::ByteEdge& edge : states_[state].bytes) {
      begins[edge.first] = true;
      begins[edge.last + size_t{1}] = true;
    }
  }
  std::array<Set, 256> behind;  // behind the first byte of each part
  for (const State state : set) {
    for (const RuleStates::ByteEdge& edge : states_[state].bytes) {
      for (size_t byte = edge.first; byte <= edge.last; ++byte) {
        if (begins[byte]) behind[byte].push_back(edge.to);
      }
    }
  }
  for (size_t first = 0; first < 256 && ok_; ++first) {
    if (behind[first].empty()) continue;
    size_t end = first + 1;
    while (end < 256 && !begins[end]) ++end;
    const Grammar::Node to = NodeOf(behind[first]);
    const auto last = static_cast<uint8_t>(end - 1);
    if (!node->edges.empty() && node->edges.back().to == to &&
        node->edges.back().last + size_t{1} == first) {
      node->edges.back().last = last;
    } else {
      node->edges.push_back({static_cast<uint8_t>(first), last, to});
    }
  }
}

std::vector<bool> RuleNodes::LeadToEnd() const {
  std::vector<std::vector<Grammar::Node>> before(nodes_.size());
  std::vector<bool> leads(nodes_.size(), false);
  std::vector<Grammar::Node> work;
  for (Grammar::Node node = 0; node < nodes_.size(); ++node) {
    for (const Grammar::Edge& edge : nodes_[node].edges) before[edge.to].push_back(node);
    for (const Grammar::Call& call : nodes_[node].calls) before[call.to].push_back(node);
    if (!nodes_[node].is_end) continue;
    leads[node] = true;
    work.push_back(node);
  }
  while (!work.empty()) {
    const Grammar::Node node = work.back();
    work.pop_back();
    for (const Grammar::Node from : before[node]) {
      if (leads[from]) continue;
      leads[from] = true;
      work.push_back(from);
    }
  }
  return leads;
}

void RuleNodes::Trim() {
  std::vector<bool> keep = LeadToEnd();
  const std::vector<bool> leads = keep;
  for (const Grammar::Node first : firsts_) keep[first] = true;
  std::vector<Grammar::Node> numbers(nodes_.size(), Grammar::kNoNode);
  Grammar::Node next = 0;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (keep[node]) numbers[node] = next++;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (!keep[i]) continue;
    std::erase_if(node.edges, [&](const Grammar::Edge& edge) { return !leads[edge.to]; });
    std::erase_if(node.calls, [&](const Grammar::Call& call) { return !leads[call.to]; });
    for (Grammar::Edge& edge : node.edges) edge.to = numbers[edge.to];
    for (Grammar::Call& call : node.calls) call.to = numbers[call.to];
    if (numbers[i] != i) nodes_[numbers[i]] = std::move(node);
  }
  nodes_.resize(next);
  for (Grammar::Node& first : firsts_) first = numbers[first];
}

}  // namespace longstream
