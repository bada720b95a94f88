// Builds the tree from the sorted tokens.
#include "service/grammar/token_trie.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace longstream {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : vocab_size_(tokenizer.vocab_size()) {
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (int32_t id = 0; id < vocab_size_; ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(id);
    if (!bytes.empty() && !tokenizer.IsSpecial(id)) tokens.emplace_back(bytes, id);
  }
  std::sort(tokens.begin(), tokens.end());

  nodes_.emplace_back();
  std::vector<uint32_t> path{0};  // the nodes from the root to the last one
  std::string_view last;
  for (const auto& [bytes, id] : tokens) {
    const auto common = static_cast<size_t>(
        std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end()).first - last.begin());
    for (; path.size() > common + 1; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(bytes[i]), static_cast<uint32_t>(i + 1), 0,
                        static_cast<uint32_t>(tokens_.size())});
    }
    tokens_.push_back(id);
    last = bytes;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, 0, 0, static_cast<uint32_t>(tokens_.size())});
  nodes_.shrink_to_fit();
}

size_t TokenTrie::bytes() const {
  return nodes_.capacity() * sizeof(Node) + tokens_.capacity() * sizeof(int32_t);
}

}  // namespace longstream
