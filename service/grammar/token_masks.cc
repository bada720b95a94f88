// Walks the tree of tokens beside a matcher.
#include "service/grammar/token_masks.h"

#include <algorithm>
#include <utility>

namespace longstream {
namespace {

absl::Status TooMuchWork() {
  return absl::ResourceExhaustedError(
      "response_format: the grammar reads the text in too many ways at once");
}

// Visits the nodes below `root` whose bytes behind the root's the matcher can read. The matcher is
// at the end of the root's bytes. visit(node) is called with the matcher behind the node's bytes.
template <typename Visit>
absl::Status Walk(const TokenTrie& trie, size_t root, uint64_t most_work, Matcher& matcher,
                  const Visit& visit) {
  const size_t bytes_before = matcher.depth();
  const auto bytes_of = [&](size_t node) { return trie.Depth(node) - trie.Depth(root); };
  for (size_t node = root + 1; node < trie.End(root);) {
    matcher.Undo(matcher.depth() - bytes_before - (bytes_of(node) - 1));
    if (matcher.Push(trie.Byte(node))) {
      visit(node);
      ++node;
    } else {
      node = trie.End(node);
      if (matcher.overflowed()) break;
    }
    if (matcher.work() > most_work) break;
  }
  matcher.Undo(matcher.depth() - bytes_before);
  return matcher.overflowed() || matcher.work() > most_work ? TooMuchWork() : absl::OkStatus();
}

void Allow(int32_t token, absl::Span<uint32_t> mask) {
  mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
}

}  // namespace

TokenMasks::TokenMasks(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), most_bytes_(most_bytes) {}

absl::Status TokenMasks::Fill(Matcher& matcher, absl::Span<uint32_t> mask) {
  std::fill(mask.begin(), mask.end(), 0);
  const uint64_t most_work = matcher.work() + kMostWork;
  const absl::Span<const Matcher::Item> at = matcher.items();
  const std::vector<Matcher::Item> items(at.begin(), at.end());
  for (const Matcher::Item& item : items) {
    if (!item.is_kernel) continue;  // its caller has its tokens
    std::shared_ptr<const OfNode> of_node = Find(item.node);
    if (of_node == nullptr) {
      absl::StatusOr<std::shared_ptr<const OfNode>> computed = Compute(item.node);
      if (!computed.ok()) return computed.status();
      of_node = *std::move(computed);
      Keep(item.node, of_node);
    }
    for (size_t i = 0; i < of_node->bits.size(); ++i) mask[i] |= of_node->bits[i];
    for (const int32_t token : of_node->tokens) Allow(token, mask);
    if (of_node->leaves.empty() || !matcher.Leave(item)) continue;
    for (const uint32_t leaf : of_node->leaves) {
      const absl::Status walked = Walk(*trie_, leaf, most_work, matcher, [&](size_t node) {
        for (const int32_t token : trie_->Tokens(node)) Allow(token, mask);
      });
      if (!walked.ok()) {
        matcher.Undo(1);
        return walked;
      }
    }
    matcher.Undo(1);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TokenMasks::OfNode>> TokenMasks::Compute(
    Grammar::Node node) const {
  auto result = std::make_shared<OfNode>();
  Matcher matcher(grammar_, node);
  const absl::Status walked = Walk(*trie_, 0, kMostWork, matcher, [&](size_t at) {
    const absl::Span<const int32_t> tokens = trie_->Tokens(at);
    result->tokens.insert(result->tokens.end(), tokens.begin(), tokens.end());
    const bool has_more = trie_->End(at) > at + 1;
    if (matcher.CanEnd() && has_more) result->leaves.push_back(static_cast<uint32_t>(at));
  });
  if (!walked.ok()) return walked;
  if (result->tokens.size() > words()) {  // a mask is smaller
    result->bits.assign(words(), 0);
    for (const int32_t token : result->tokens) Allow(token, absl::MakeSpan(result->bits));
    result->tokens.clear();
  }
  result->tokens.shrink_to_fit();
  return result;
}

std::shared_ptr<const TokenMasks::OfNode> TokenMasks::Find(Grammar::Node node) {
  absl::MutexLock lock(&mutex_);
  const auto found = index_.find(node);
  if (found == index_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->second;
}

void TokenMasks::Keep(Grammar::Node node, std::shared_ptr<const OfNode> result) {
  absl::MutexLock lock(&mutex_);
  if (index_.contains(node)) return;
  kept_bytes_ += result->bytes();
  kept_.emplace_front(node, std::move(result));
  index_[node] = kept_.begin();
  while (kept_bytes_ > most_bytes_ && kept_.size() > 1) {
    kept_bytes_ -= kept_.back().second->bytes();
    index_.erase(kept_.back().first);
    kept_.pop_back();
  }
}

size_t TokenMasks::OfNode::bytes() const {
  return sizeof(OfNode) + bits.capacity() * sizeof(uint32_t) + tokens.capacity() * sizeof(int32_t) +
         leaves.capacity() * sizeof(uint32_t);
}

size_t TokenMasks::bytes() const {
  absl::MutexLock lock(&mutex_);
  return grammar_.bytes() + kept_bytes_;
}

}  // namespace longstream
