// The tokens with which a text of a grammar can go on.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_TOKEN_MASKS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_TOKEN_MASKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/grammar/grammar.h"
#include "service/grammar/mask_store.h"
#include "service/grammar/matcher.h"
#include "service/grammar/token_trie.h"

namespace longstream {

// INVALID_ARGUMENT: the grammar of a response format reads an answer in too many ways. A repeat of
// the turn would fail, too.
absl::Status TooManyReadings();

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
  TokenMasks(Grammar grammar, std::shared_ptr<const TokenTrie> trie,
             std::shared_ptr<MaskStore> store);

  const Grammar& grammar() const { return grammar_; }
  // The number of words of a mask.
  size_t words() const { return (static_cast<size_t>(trie_->vocab_size()) + 31) / 32; }

  // Sets bit t % 32 of word t / 32 if the matcher's text can go on with token t, and clears the
  // others. The matcher, of this grammar, is as before afterwards. TooManyReadings: it takes too
  // many steps. REQUIRES: `mask` has words() words.
  absl::Status Fill(Matcher& matcher, absl::Span<uint32_t> mask) const;

  // Finds the tokens of the nodes behind which most tokens are allowed, such as those within
  // strings, so that Fill need not. Takes at most about `most_work` steps.
  void Prepare(uint64_t most_work) const;

  // Steps (Matcher::work) that one Fill may take for nodes that are new, and for the walks behind
  // the ends of rules, which every mask takes anew.
  static constexpr uint64_t kMostWork = 4'000'000;
  static constexpr uint64_t kMostWalk = 500'000;

 private:
  // The tokens of the node, from the store or computed. Adds the steps to *work, which may become
  // kMostWork.
  absl::StatusOr<std::shared_ptr<const NodeTokens>> TokensOf(Grammar::Node node,
                                                             uint64_t* work) const;
  absl::StatusOr<std::shared_ptr<const NodeTokens>> Compute(Grammar::Node node,
                                                            uint64_t* work) const;

  const Grammar grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  const std::shared_ptr<MaskStore> store_;
  const uint64_t number_;  // of the grammar in the store
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_TOKEN_MASKS_H_
