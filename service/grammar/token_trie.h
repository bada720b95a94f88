// The tokens of a vocabulary by their bytes.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_TOKEN_TRIE_H_
#define LONGSTREAM_SERVICE_GRAMMAR_TOKEN_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// A tree of bytes: the path to a node spells the bytes of the node's tokens. The nodes are in
// preorder, so a walk reads them in order, and skips a subtree by going on at its end. Special
// tokens and tokens without bytes are left out. Immutable, thread-safe. Takes about 12 bytes for
// each node; a vocabulary of 150,000 tokens has about 400,000 nodes.
class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);

  // The root is node 0, of depth 0.
  size_t num_nodes() const { return nodes_.size() - 1; }
  // The last byte of the path. REQUIRES: it is not the root.
  uint8_t Byte(size_t node) const { return nodes_[node].byte; }
  // The length of the path.
  size_t Depth(size_t node) const { return nodes_[node].depth; }
  // The node behind the node's subtree.
  size_t End(size_t node) const { return nodes_[node].end; }
  absl::Span<const int32_t> Tokens(size_t node) const {
    return absl::MakeSpan(tokens_).subspan(nodes_[node].tokens,
                                           nodes_[node + 1].tokens - nodes_[node].tokens);
  }
  int vocab_size() const { return vocab_size_; }
  // Bytes of memory.
  size_t bytes() const;

 private:
  struct Node {
    uint8_t byte = 0;
    uint32_t depth = 0;
    uint32_t end = 0;
    uint32_t tokens = 0;  // index of the node's first token
  };

  int vocab_size_ = 0;
  std::vector<Node> nodes_;  // and one more, for the end of the last node's tokens
  std::vector<int32_t> tokens_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_TOKEN_TRIE_H_
