// A set of texts that finds the longest one that a text begins with.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_PREFIX_SET_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_PREFIX_SET_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Immutable: may be used by any number of threads.
class PrefixSet {
 public:
  PrefixSet() = default;

  // REQUIRES: texts ascend, and none is empty.
  explicit PrefixSet(std::vector<std::string> texts);

  // The index of the longest member that `text` begins with. O(its length * log of the size of the
  // set); O(1) if no member begins with the first byte.
  std::optional<size_t> LongestAt(std::string_view text) const;

  const std::string& operator[](size_t index) const { return texts_[index]; }

 private:
  std::vector<std::string> texts_;
  std::array<bool, 256> begins_member_{};  // by the first byte
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_PREFIX_SET_H_
