#include "tests/service/grammar/formats/grammar_texts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "service/grammar/matcher.h"

namespace longstream {

using AddFormat = std::function<absl::StatusOr<GrammarBuilder::Expression>(GrammarBuilder&)>;

absl::StatusOr<Grammar> BuildFormat(const AddFormat& add) {
  GrammarBuilder builder;
  const absl::StatusOr<GrammarBuilder::Expression> expression = add(builder);
  if (!expression.ok()) return expression.status();
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, *expression);
  return builder.Build(start);
}

std::string ErrorOf(const AddFormat& add) {
  const absl::StatusOr<Grammar> grammar = BuildFormat(add);
  if (grammar.ok()) return "";
  EXPECT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(grammar.status().message());
}

namespace {

bool Read(Matcher& matcher, std::string_view text) {
  for (const char byte : text) {
    if (!matcher.Push(static_cast<uint8_t>(byte))) return false;
    matcher.Commit();
  }
  return matcher.CanEnd();
}

}  // namespace

bool Fits(const Grammar& grammar, std::string_view text) {
  Matcher matcher(grammar);
  const bool fits = Read(matcher, text);
  EXPECT_FALSE(matcher.overflowed());
  return fits;
}

bool FitsOrOverflows(const Grammar& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return Read(matcher, text) || matcher.overflowed();
}

GrammarWalker::GrammarWalker(const Grammar& grammar)
    : grammar_(grammar), costs_(grammar.num_nodes(), kFar) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = grammar.num_nodes(); i-- > 0;) {
      const auto node = static_cast<Grammar::Node>(i);
      const size_t cost = CostOf(node);
      has_changed = has_changed || cost < costs_[node];
      costs_[node] = std::min(cost, costs_[node]);
    }
  }
}

size_t GrammarWalker::CostOf(Grammar::Node node) const {
  size_t cost = grammar_.IsEnd(node) ? 0 : kFar;
  for (const Grammar::Edge& edge : grammar_.Edges(node)) {
    cost = std::min(cost, costs_[edge.to] + 1);
  }
  for (const Grammar::Call& call : grammar_.Calls(node)) {
    cost = std::min(cost, costs_[grammar_.First(call.rule)] + costs_[call.to] + 1);
  }
  return cost;
}

std::string GrammarWalker::Walk(Random& random, size_t bytes) const {
  std::string text;
  WalkRule(grammar_.start_rule(), random, bytes, 0, &text);
  return text;
}

void GrammarWalker::WalkRule(uint32_t rule, Random& random, size_t bytes, int depth,
                             std::string* text) const {
  constexpr int kMostDepth = 500;
  Grammar::Node node = grammar_.First(rule);
  while (true) {
    const auto edges = grammar_.Edges(node);
    const auto calls = grammar_.Calls(node);
    const bool is_end = grammar_.IsEnd(node);
    const size_t ways = edges.size() + calls.size() + (is_end ? 1 : 0);
    size_t way = Draw(random, ways);
    if (text->size() >= bytes || depth > kMostDepth) {
      if (is_end) return;
      const auto cost = [&](size_t i) {
        if (i < edges.size()) return costs_[edges[i].to];
        const Grammar::Call& call = calls[i - edges.size()];
        return costs_[grammar_.First(call.rule)] + costs_[call.to];
      };
      way = 0;
      for (size_t i = 1; i < ways; ++i) way = cost(i) < cost(way) ? i : way;
    }
    if (way < edges.size()) {
      const Grammar::Edge& edge = edges[way];
      const size_t size = edge.last - edge.first + size_t{1};
      text->push_back(static_cast<char>(edge.first + Draw(random, size)));
      node = edge.to;
    } else if (way < edges.size() + calls.size()) {
      const Grammar::Call& call = calls[way - edges.size()];
      WalkRule(call.rule, random, bytes, depth + 1, text);
      node = call.to;
    } else {
      return;
    }
  }
}

std::string Mutated(Random& random, std::string text) {
  for (size_t n = 1 + Draw(random, 3); n > 0 && !text.empty(); --n) {
    const size_t at = Draw(random, text.size());
    constexpr std::string_view kBytes = "\"\\{}[]:,0123456789.-+eEabnulltrue \n\t^$()*+?|\x80\xC3";
    switch (Draw(random, 4)) {
      case 0:
        text[at] = kBytes[Draw(random, kBytes.size())];
        break;
      case 1:
        text.erase(at, 1);
        break;
      case 2:
        text.insert(at, 1, kBytes[Draw(random, kBytes.size())]);
        break;
      default:
        text.insert(at, 1, text[Draw(random, text.size())]);
    }
  }
  return text;
}

}  // namespace longstream
