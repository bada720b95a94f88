// Keeps sets of tokens that were found for nodes of grammars.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_MASK_STORE_H_
#define LONGSTREAM_SERVICE_GRAMMAR_MASK_STORE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "service/grammar/grammar.h"

namespace longstream {

// The tokens that a text at a node can go on with before the node's rule ends.
struct NodeTokens {
  std::vector<uint32_t> bits;    // a mask; empty: see tokens
  std::vector<int32_t> tokens;   // instead of a mask with few bits
  std::vector<uint32_t> leaves;  // nodes of the TokenTrie behind whose bytes the rule may end

  // Bytes of memory.
  size_t bytes() const;
};

// Shared by the grammars of one vocabulary. Thread-safe.
class MaskStore {
 public:
  // Keeps at most about `most_bytes`; drops the results that were not used for the longest time.
  explicit MaskStore(size_t most_bytes) : most_bytes_(most_bytes) {}

  // A number that no other grammar has.
  uint64_t NewGrammar() ABSL_LOCKS_EXCLUDED(mutex_);
  // nullptr: not kept.
  std::shared_ptr<const NodeTokens> Find(uint64_t grammar, Grammar::Node node)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep(uint64_t grammar, Grammar::Node node, std::shared_ptr<const NodeTokens> tokens)
      ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::pair<uint64_t, Grammar::Node>;
  using Kept = std::list<std::pair<Key, std::shared_ptr<const NodeTokens>>>;

  const size_t most_bytes_;
  mutable absl::Mutex mutex_;
  uint64_t grammars_ ABSL_GUARDED_BY(mutex_) = 0;
  Kept kept_ ABSL_GUARDED_BY(mutex_);  // the last used first
  absl::flat_hash_map<Key, Kept::iterator> index_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_MASK_STORE_H_
