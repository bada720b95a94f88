// The unigram language model. It divides a word into the sequence of tokens with the greatest sum
// of scores.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_UNIGRAM_MODEL_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_UNIGRAM_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Immutable after Create, so any number of threads may use it.
class UnigramModel {
 public:
  // Bounds the time that Encode takes per byte of a word.
  static constexpr size_t kMaxTokenBytes = 1024;

  // Scratch memory of Encode, which is reused for the next word. Each thread needs its own.
  class Workspace {
   private:
    friend class UnigramModel;

    // The best sequence of tokens for the bytes of the word up to here.
    struct End {
      double score;
      uint32_t begin;  // where its last token begins; kNowhere: no sequence ends here
      int32_t id;      // the id of its last token
    };

    std::vector<End> ends_;
    std::vector<uint32_t> cuts_;  // ends of the best sequence's tokens, last token first
  };

  // INVALID_ARGUMENT: the spec has no unk_id, a score is not finite, or a token is longer than
  // kMaxTokenBytes.
  static absl::StatusOr<UnigramModel> Create(const TokenizerSpec& spec);

  // Appends the ids of a word. If several sequences have the greatest sum, takes the one whose last
  // token begins first. If their last tokens are equal, compares the tokens before these, and so
  // on. A run of characters without a token becomes the tokens of its bytes or one unk_id, as the
  // spec says. O(n * longest token).
  // REQUIRES: word is UTF-8, not empty, shorter than 2^32 - 1 bytes.
  void Encode(std::string_view word, Workspace* workspace, std::vector<int32_t>* ids) const;

 private:
  // A node of the trie that holds the texts of the vocabulary.
  struct Node {
    int32_t id = -1;  // the token whose text ends here; -1: none
    double score = 0;
  };

  void AddToken(std::string_view text, int32_t id, double score);
  const Node* Child(uint32_t node, unsigned char byte, uint32_t* child) const;
  void FindEnds(std::string_view word, Workspace* workspace) const;
  void AppendUnknown(std::string_view run, std::vector<int32_t>* ids) const;

  std::vector<Node> nodes_;
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // key: node << 8 | byte
  int32_t unk_id_ = 0;
  double unk_score_ = 0;
  bool single_precision_ = false;
  bool byte_fallback_ = false;
  std::array<int32_t, 256> byte_ids_{};  // kNoId: none
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_UNIGRAM_MODEL_H_
