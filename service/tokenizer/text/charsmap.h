// The precompiled characters map of SentencePiece: texts and their replacements, as a double array
// trie. Little-endian: a uint32 with the size of the trie in bytes; the trie, units of uint32; the
// replacements, each ended by a zero byte.
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

// Immutable after Create: may be used by any number of threads.
class Charsmap {
 public:
  struct Match {
    size_t length = 0;             // bytes of the text
    std::string_view replacement;  // UTF-8; as long as the map
  };

  // INVALID_ARGUMENT: the sizes do not fit, or a replacement is not UTF-8. An empty map has no
  // matches.
  static absl::StatusOr<Charsmap> Create(std::string_view blob);

  // The longest and the shortest of the map's texts that `text` begins with.
  std::optional<Match> Longest(std::string_view text) const { return Find(text, true); }
  std::optional<Match> Shortest(std::string_view text) const { return Find(text, false); }

 private:
  std::optional<Match> Find(std::string_view text, bool longest) const;
  // The replacement at an offset; nothing for an offset outside the map.
  std::optional<std::string_view> Replacement(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_CHARSMAP_H_
