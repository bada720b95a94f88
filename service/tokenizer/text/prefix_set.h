// A set of texts. It finds the longest member that a given text begins with.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_PREFIX_SET_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_PREFIX_SET_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Immutable, so any number of threads may use it.
class PrefixSet {
 public:
  PrefixSet() = default;

  // REQUIRES: the texts ascend, and none is empty.
  explicit PrefixSet(std::vector<std::string> texts);

  // Returns the index of the longest member that `text` begins with. O(length of that member * log
  // of the number of members); O(1) if no member begins with the first byte of `text`.
  std::optional<size_t> LongestAt(std::string_view text) const;

  const std::string& operator[](size_t index) const { return texts_[index]; }

 private:
  std::vector<std::string> texts_;
  std::array<bool, 256> begins_member_{};  // whether a member begins with the byte
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_PREFIX_SET_H_
