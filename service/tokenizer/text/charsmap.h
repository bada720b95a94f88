// The precompiled characters map of SentencePiece: a double-array trie of texts, and their
// replacements. The bytes of the map are: the size of the trie in bytes, as a uint32; the trie,
// which is an array of uint32 units; and the replacements, each followed by a zero byte. Numbers
// are little-endian.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_CHARSMAP_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_CHARSMAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longstream {

// Immutable after Create, so any number of threads may use it.
class Charsmap {
 public:
  struct Match {
    size_t length = 0;             // bytes of the matched text
    std::string_view replacement;  // UTF-8; valid while the map exists
  };

  // Makes a map from its bytes. An empty `blob` gives a map without matches. INVALID_ARGUMENT: the
  // sizes do not fit, or a replacement is not UTF-8.
  static absl::StatusOr<Charsmap> Create(std::string_view blob);

  // Return the longest and the shortest text of the map that `text` begins with.
  std::optional<Match> Longest(std::string_view text) const { return Find(text, true); }
  std::optional<Match> Shortest(std::string_view text) const { return Find(text, false); }

 private:
  std::optional<Match> Find(std::string_view text, bool longest) const;
  // Returns the replacement at an offset, or nothing if the offset is invalid.
  std::optional<std::string_view> Replacement(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_CHARSMAP_H_
