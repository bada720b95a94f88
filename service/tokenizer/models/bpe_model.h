// Byte pair encoding of one word: the ranked merges of a vocabulary over bytes or characters.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_BPE_MODEL_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_BPE_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/spec/tokenizer_spec.h"
#include "service/tokenizer/text/prefix_set.h"

namespace longstream {

// Immutable after Create: may be used by any number of threads.
class BpeModel {
 public:
  // Memory that Encode works in, kept from word to word. One per thread.
  class Workspace {
   private:
    friend class BpeModel;

    struct Symbol {
      int32_t id;
      uint32_t previous;  // index of the neighbour; kNone at the ends
      uint32_t next;      // kMerged once the symbol is part of the one to its left
    };
    struct Candidate {
      uint32_t rank;
      uint32_t left;  // index of the left symbol
    };

    std::vector<Symbol> symbols_;
    std::vector<Candidate> queue_;
  };

  // INVALID_ARGUMENT: words are bytes and one that occurs in UTF-8 has no token, or a merge names a
  // text that is not in the vocabulary.
  static absl::StatusOr<BpeModel> Create(const TokenizerSpec& spec);

  // Appends the ids of a word. Neighbours of the lowest rank merge first, and of several such pairs
  // the leftmost. A character without a token becomes the tokens of its bytes or unk_id, as the
  // spec says, or is left out. O(n log n).
  // REQUIRES: word is UTF-8, not empty, shorter than 2^32 - 2 bytes.
  void Encode(std::string_view word, Workspace* workspace, std::vector<int32_t>* ids) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };

  using Vocabulary = absl::flat_hash_map<std::string, int32_t>;

  absl::Status AddBytes(const Vocabulary& vocabulary);
  void AddCharacters(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  absl::Status AddMerges(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  void SplitIntoBytes(std::string_view word, std::vector<Workspace::Symbol>* symbols) const;
  void SplitIntoCharacters(std::string_view word, std::vector<Workspace::Symbol>* symbols) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void PushCandidate(uint32_t left, uint32_t right, Workspace* workspace) const;
  void MergeAll(Workspace* workspace) const;

  bool byte_level_ = false;
  bool byte_fallback_ = false;  // and every byte has a token
  bool fuse_unk_ = false;
  std::optional<int32_t> unk_id_;
  std::array<int32_t, 256> byte_ids_{};                // kNoId: none
  absl::flat_hash_map<char32_t, int32_t> characters_;  // unless byte_level_
  PrefixSet symbols_;                                  // TokenizerSpec::symbols
  std::vector<int32_t> symbol_ids_;                    // of symbols_, at the same places
  absl::flat_hash_map<uint64_t, Merge> merges_;        // by the ids of the pair
  Vocabulary words_;                                   // by bytes; only with ignore_merges
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_BPE_MODEL_H_
