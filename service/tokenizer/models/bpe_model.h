// Byte pair encoding (BPE) of one word, by ranked merges of a vocabulary over bytes or characters.
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

// Immutable after Create, so any number of threads may use it.
class BpeModel {
 public:
  // Scratch memory of Encode, which is reused for the next word. Each thread needs its own.
  class Workspace {
   private:
    friend class BpeModel;

    struct Symbol {
      int32_t id;
      uint32_t previous;  // index of the left neighbour; kNoSymbol: there is none
      // Index of the right neighbour; kNoSymbol: none; kMerged: this symbol is part of its left
      // neighbour.
      uint32_t next;
    };
    struct Candidate {
      uint32_t rank;
      uint32_t left;  // index of the pair's left symbol
    };

    std::vector<Symbol> symbols_;
    std::vector<Candidate> queue_;
  };

  // INVALID_ARGUMENT: words are bytes, and a byte that occurs in UTF-8 has no token; or a merge
  // names a text that is not in the vocabulary.
  static absl::StatusOr<BpeModel> Create(const TokenizerSpec& spec);

  // Appends the ids of a word. The pair of neighbours with the lowest rank is merged first; if
  // several pairs have this rank, the leftmost one. A character without a token becomes the tokens
  // of its bytes, or unk_id, or is omitted, as the spec says. O(n log n).
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
  bool byte_fallback_ = false;  // true only if every byte has a token
  bool fuse_unk_ = false;
  std::optional<int32_t> unk_id_;
  std::array<int32_t, 256> byte_ids_{};                // kNoId: the byte has no token
  absl::flat_hash_map<char32_t, int32_t> characters_;  // empty if byte_level_
  PrefixSet symbols_;                                  // TokenizerSpec::symbols
  std::vector<int32_t> symbol_ids_;                    // ids of symbols_, with the same indices
  absl::flat_hash_map<uint64_t, Merge> merges_;        // key: the ids of the pair
  Vocabulary words_;                                   // key: bytes; only for ignore_merges
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_BPE_MODEL_H_
