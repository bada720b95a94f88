// The formats that the turns of a model use, compiled for its vocabulary.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_RESPONSE_COMPILED_FORMATS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_RESPONSE_COMPILED_FORMATS_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/grammar/mask_store.h"
#include "service/grammar/response/response_format.h"
#include "service/grammar/token_masks.h"
#include "service/grammar/token_trie.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// Formats that were used before are found again, with the sets of tokens that were found for them.
// Thread-safe.
class CompiledFormats {
 public:
  struct Limits {
    // Bytes of the grammars that are in use by turns or kept.
    size_t grammars = size_t{256} << 20;
    // Bytes of the grammars that are kept for later turns, with their keys.
    size_t kept = size_t{32} << 20;
    // Bytes of the sets of tokens.
    size_t masks = size_t{64} << 20;
  };

  // The tokenizer must outlive the object.
  explicit CompiledFormats(const Tokenizer& tokenizer) : CompiledFormats(tokenizer, Limits()) {}
  CompiledFormats(const Tokenizer& tokenizer, const Limits& limits);

  // Takes milliseconds for a new format, up to about a second for a large one. The first call makes
  // the tree of the vocabulary, too. INVALID_ARGUMENT: as for Compile. RESOURCE_EXHAUSTED: the
  // grammars in use take too much memory.
  absl::StatusOr<std::shared_ptr<const TokenMasks>> Get(const ResponseFormat& format)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes of memory.
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<const TokenMasks> masks;
    size_t bytes = 0;
  };
  using KeptList = std::list<Kept>;

  std::shared_ptr<const TokenMasks> Find(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const TokenTrie> Trie() ABSL_LOCKS_EXCLUDED(trie_mutex_);
  absl::Status Keep(const std::string& key, std::shared_ptr<const TokenMasks> masks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void DropLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The bytes of all grammars that exist.
  size_t GrammarBytes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Tokenizer& tokenizer_;
  const Limits limits_;
  const std::shared_ptr<MaskStore> store_;
  mutable absl::Mutex trie_mutex_;
  std::shared_ptr<const TokenTrie> trie_ ABSL_GUARDED_BY(trie_mutex_);  // nullptr: not made yet
  mutable absl::Mutex mutex_;
  KeptList kept_ ABSL_GUARDED_BY(mutex_);  // the last used first
  absl::flat_hash_map<std::string, KeptList::iterator> index_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Also those that are not kept any more, while a turn uses them.
  std::list<std::weak_ptr<const TokenMasks>> all_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_RESPONSE_COMPILED_FORMATS_H_
