// Walks the tree of tokens beside a matcher.
#include "service/grammar/token_masks.h"

#include <algorithm>
#include <utility>

namespace longstream {
namespace {

// Visits the nodes below `root` whose bytes behind the root's the matcher can read. The matcher is
// at the end of the root's bytes. visit(node) is called with the matcher behind the node's bytes.
// Adds the steps to *work. Returns false if they become more than `most`, or the matcher overflows.
template <typename Visit>
bool Walk(const TokenTrie& trie, size_t root, uint64_t most, uint64_t* work, Matcher& matcher,
          const Visit& visit) {
  const size_t bytes_before = matcher.depth();
  const uint64_t work_before = matcher.work();
  const uint64_t most_work = work_before + most - std::min(*work, most);
  const auto bytes_of = [&](size_t node) { return trie.Depth(node) - trie.Depth(root); };
  for (size_t node = root + 1; node < trie.End(root);) {
    matcher.Undo(matcher.depth() - bytes_before - (bytes_of(node) - 1));
    if (matcher.Push(trie.Byte(node))) {
      visit(node);
      ++node;
    } else {
      node = trie.End(node);
    }
    if (matcher.overflowed() || matcher.work() > most_work) break;
  }
  matcher.Undo(matcher.depth() - bytes_before);
  *work += matcher.work() - work_before;
  return !matcher.overflowed() && matcher.work() <= most_work;
}

void Allow(int32_t token, absl::Span<uint32_t> mask) {
  mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
}

}  // namespace

absl::Status TooManyReadings() {
  return absl::InvalidArgumentError(
      "response_format: the grammar reads the text in too many ways at once");
}

TokenMasks::TokenMasks(Grammar grammar, std::shared_ptr<const TokenTrie> trie,
                       std::shared_ptr<MaskStore> store)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      store_(std::move(store)),
      number_(store_->NewGrammar()) {}

absl::Status TokenMasks::Fill(Matcher& matcher, absl::Span<uint32_t> mask) const {
  std::fill(mask.begin(), mask.end(), 0);
  uint64_t work = 0, walk = 0;
  const absl::Span<const Matcher::Item> at = matcher.items();
  const std::vector<Matcher::Item> items(at.begin(), at.end());
  for (const Matcher::Item& item : items) {
    if (!item.is_kernel) continue;  // its caller has its tokens
    const absl::StatusOr<std::shared_ptr<const NodeTokens>> found = TokensOf(item.node, &work);
    if (!found.ok()) return found.status();
    const NodeTokens& of_node = **found;
    for (size_t i = 0; i < of_node.bits.size(); ++i) mask[i] |= of_node.bits[i];
    for (const int32_t token : of_node.tokens) Allow(token, mask);
    if (of_node.leaves.empty()) continue;
    if (!matcher.Leave(item)) {
      if (matcher.overflowed()) return TooManyReadings();
      continue;
    }
    bool walked = true;
    for (size_t i = 0; i < of_node.leaves.size() && walked; ++i) {
      walked = Walk(*trie_, of_node.leaves[i], kMostWalk, &walk, matcher, [&](size_t node) {
        for (const int32_t token : trie_->Tokens(node)) Allow(token, mask);
      });
    }
    matcher.Undo(1);
    if (!walked) return TooManyReadings();
  }
  return absl::OkStatus();
}

void TokenMasks::Prepare(uint64_t most_work) const {
  constexpr int kManyBytes = 64;
  uint64_t work = 0;
  for (Grammar::Node node = 0; node < grammar_.num_nodes() && work < most_work; ++node) {
    int bytes = 0;
    for (const Grammar::Edge& edge : grammar_.Edges(node)) bytes += edge.last - edge.first + 1;
    if (bytes < kManyBytes || store_->Find(number_, node) != nullptr) continue;
    uint64_t of_node = 0;
    const absl::StatusOr<std::shared_ptr<const NodeTokens>> computed = Compute(node, &of_node);
    if (computed.ok()) store_->Keep(number_, node, *computed);
    work += of_node;
  }
}

absl::StatusOr<std::shared_ptr<const NodeTokens>> TokenMasks::TokensOf(Grammar::Node node,
                                                                       uint64_t* work) const {
  if (auto kept = store_->Find(number_, node); kept != nullptr) return kept;
  absl::StatusOr<std::shared_ptr<const NodeTokens>> computed = Compute(node, work);
  if (computed.ok()) store_->Keep(number_, node, *computed);
  return computed;
}

absl::StatusOr<std::shared_ptr<const NodeTokens>> TokenMasks::Compute(Grammar::Node node,
                                                                      uint64_t* work) const {
  auto result = std::make_shared<NodeTokens>();
  Matcher matcher(grammar_, node);
  const bool walked = Walk(*trie_, 0, kMostWork, work, matcher, [&](size_t at) {
    const absl::Span<const int32_t> tokens = trie_->Tokens(at);
    result->tokens.insert(result->tokens.end(), tokens.begin(), tokens.end());
    const bool has_more = trie_->End(at) > at + 1;
    if (matcher.CanEnd() && has_more) result->leaves.push_back(static_cast<uint32_t>(at));
  });
  if (!walked) return TooManyReadings();
  if (result->tokens.size() > words()) {  // a mask is smaller
    result->bits.assign(words(), 0);
    for (const int32_t token : result->tokens) Allow(token, absl::MakeSpan(result->bits));
    result->tokens.clear();
  }
  result->tokens.shrink_to_fit();
  result->leaves.shrink_to_fit();
  return result;
}

}  // namespace longstream
