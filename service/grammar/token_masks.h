// The tokens with which a text of a grammar can go on.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_TOKEN_MASKS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_TOKEN_MASKS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/grammar/grammar.h"
#include "service/grammar/matcher.h"
#include "service/grammar/token_trie.h"

namespace longstream {

// A grammar for the tokens of one vocabulary. Thread-safe.
//
// To find the tokens, the tree of all tokens is walked beside the grammar, which takes milliseconds
// where most tokens are allowed. Most of the result depends only on the node of the grammar, not on
// the rules' callers: the tokens that end before the node's rule does. They are found once for each
// node and kept, with the places in the tree where the rule may end; only from these places on the
// tree is walked for each token. (Y. Dong et al., "XGrammar", 2024, calls the kept tokens
// context-independent.)
class TokenMasks {
 public:
  // At most about `most_bytes` of results are kept; the ones that were not used for the longest
  // time go first.
  TokenMasks(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes);

  const Grammar& grammar() const { return grammar_; }
  // The number of words of a mask.
  size_t words() const { return (static_cast<size_t>(trie_->vocab_size()) + 31) / 32; }

  // Sets bit t % 32 of word t / 32 if the matcher's text can go on with token t, and clears the
  // others. The matcher, of this grammar, is as before afterwards. RESOURCE_EXHAUSTED: it takes too
  // many steps, because the grammar reads the text in too many ways. REQUIRES: `mask` has words()
  // words.
  absl::Status Fill(Matcher& matcher, absl::Span<uint32_t> mask) ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes of memory of the grammar and of the results that are kept.
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps (Matcher::work) that one Fill may take.
  static constexpr uint64_t kMostWork = 5'000'000;

 private:
  // The tokens that a text at a node can go on with before the node's rule ends.
  struct OfNode {
    std::vector<uint32_t> bits;    // a mask; empty: see tokens
    std::vector<int32_t> tokens;   // instead of a mask with few bits
    std::vector<uint32_t> leaves;  // nodes of the tree behind whose bytes the rule may end
    size_t bytes() const;
  };
  using Results = std::list<std::pair<Grammar::Node, std::shared_ptr<const OfNode>>>;

  std::shared_ptr<const OfNode> Find(Grammar::Node node) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<const OfNode>> Compute(Grammar::Node node) const;
  void Keep(Grammar::Node node, std::shared_ptr<const OfNode> result) ABSL_LOCKS_EXCLUDED(mutex_);

  const Grammar grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  const size_t most_bytes_;
  mutable absl::Mutex mutex_;
  Results kept_ ABSL_GUARDED_BY(mutex_);  // the last used first
  absl::flat_hash_map<Grammar::Node, Results::iterator> index_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_TOKEN_MASKS_H_
