// Implements byte pair encoding with a linked list of symbols and a heap of possible merges.
#include "service/tokenizer/models/bpe_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/tokenizer/models/byte_tokens.h"
#include "service/tokenizer/text/byte_alphabet.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

constexpr uint32_t kNoSymbol = 0xFFFFFFFFu;
constexpr uint32_t kMerged = 0xFFFFFFFEu;

// Whether UTF-8 text can contain the byte. Some vocabularies have no tokens for the other bytes.
bool OccursInUtf8(int byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<BpeModel> BpeModel::Create(const TokenizerSpec& spec) {
  const Vocabulary vocabulary(spec.vocabulary.begin(), spec.vocabulary.end());
  BpeModel model;
  model.byte_level_ = spec.byte_level;
  model.fuse_unk_ = spec.fuse_unk;
  model.unk_id_ = spec.unk_id;
  if (spec.byte_level) {
    if (absl::Status status = model.AddBytes(vocabulary); !status.ok()) return status;
  } else {
    model.AddCharacters(spec, vocabulary);
  }
  if (absl::Status status = model.AddMerges(spec, vocabulary); !status.ok()) return status;
  if (spec.ignore_merges) {
    for (const auto& [text, id] : spec.vocabulary) {
      // A text with characters outside the byte alphabet cannot be a word.
      auto bytes = spec.byte_level ? AlphabetToBytes(text) : text;
      if (bytes) model.words_.emplace(*std::move(bytes), id);
    }
  }
  return model;
}

absl::Status BpeModel::AddBytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    if (!OccursInUtf8(byte)) continue;
    const std::string text = ByteToAlphabet(static_cast<unsigned char>(byte));
    const auto token = vocabulary.find(text);
    if (token == vocabulary.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "model.vocab: expected a token for each byte, found none for byte 0x%02X, \"%s\"", byte,
          text));
    }
    byte_ids_[static_cast<size_t>(byte)] = token->second;
  }
  return absl::OkStatus();
}

void BpeModel::AddCharacters(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  for (const auto& [text, id] : spec.vocabulary) {
    size_t length = 0;
    if (text.empty()) continue;
    const char32_t character = NextCodePoint(text, &length);
    if (length == text.size()) characters_.emplace(character, id);
  }
  if (spec.byte_fallback) {
    byte_fallback_ = true;
    byte_ids_ = ByteTokens(spec);
  }
  for (const std::string& symbol : spec.symbols) symbol_ids_.push_back(vocabulary.at(symbol));
  symbols_ = PrefixSet(spec.symbols);
}

absl::Status BpeModel::AddMerges(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  merges_.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    std::array<int32_t, 3> ids;
    const std::array<std::string, 3> texts = {left, right, left + right};
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto token = vocabulary.find(texts[i]);
      if (token == vocabulary.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("model.merges[", rank, "]: expected tokens of model.vocab, found \"",
                         texts[i], "\", which is not one"));
      }
      ids[i] = token->second;
    }
    // If a pair is listed twice, the last entry counts, as in the library `tokenizers`.
    const auto place = static_cast<uint32_t>(rank);
    merges_[PairKey(ids[0], ids[1])] = {spec.merge_ranks.empty() ? place : spec.merge_ranks[rank],
                                        ids[2]};
  }
  return absl::OkStatus();
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const auto merge = merges_.find(PairKey(left, right));
  return merge == merges_.end() ? nullptr : &merge->second;
}

void BpeModel::Encode(std::string_view word, Workspace* workspace,
                      std::vector<int32_t>* ids) const {
  if (!words_.empty()) {
    if (const auto whole = words_.find(absl::string_view(word.data(), word.size()));
        whole != words_.end()) {
      ids->push_back(whole->second);
      return;
    }
  }
  std::vector<Workspace::Symbol>& symbols = workspace->symbols_;
  symbols.clear();
  if (byte_level_) {
    SplitIntoBytes(word, &symbols);
  } else {
    SplitIntoCharacters(word, &symbols);
  }
  if (symbols.empty()) return;
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1;
  }
  symbols.front().previous = kNoSymbol;
  symbols.back().next = kNoSymbol;
  MergeAll(workspace);
  for (uint32_t i = 0; i != kNoSymbol; i = symbols[i].next) ids->push_back(symbols[i].id);
}

void BpeModel::SplitIntoBytes(std::string_view word,
                              std::vector<Workspace::Symbol>* symbols) const {
  for (const char c : word) symbols->push_back({byte_ids_[static_cast<unsigned char>(c)], 0, 0});
}

void BpeModel::SplitIntoCharacters(std::string_view word,
                                   std::vector<Workspace::Symbol>* symbols) const {
  const auto add = [symbols](int32_t id) { symbols->push_back({id, 0, 0}); };
  // An unknown character was found and its token was not added yet, because the unknown characters
  // that follow may be fused with it.
  bool unk_waits = false;
  const auto add_unk = [&] {
    if (unk_waits) add(*unk_id_);
    unk_waits = false;
  };
  for (size_t at = 0; at < word.size();) {
    if (const auto symbol = symbols_.LongestAt(word.substr(at))) {
      add_unk();
      add(symbol_ids_[*symbol]);
      at += symbols_[*symbol].size();
      continue;
    }
    const size_t begin = at;
    const auto known = characters_.find(NextCodePoint(word, &at));
    if (known != characters_.end()) {
      add_unk();
      add(known->second);
      continue;
    }
    if (byte_fallback_) {
      const std::string_view bytes = word.substr(begin, at - begin);
      const auto id_of = [this](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
      // As in the library `tokenizers`, byte tokens do not end a run of unknown characters.
      if (std::all_of(bytes.begin(), bytes.end(), [&](char c) { return id_of(c) != kNoId; })) {
        for (const char c : bytes) add(id_of(c));
        continue;
      }
    }
    if (!unk_id_) continue;
    if (!fuse_unk_) add_unk();
    unk_waits = true;
  }
  add_unk();
}

// Adds the merge of two neighbours to the queue, if they can be merged.
void BpeModel::PushCandidate(uint32_t left, uint32_t right, Workspace* workspace) const {
  const std::vector<Workspace::Symbol>& symbols = workspace->symbols_;
  if (const Merge* merge = FindMerge(symbols[left].id, symbols[right].id)) {
    workspace->queue_.push_back({merge->rank, left});
  }
}

void BpeModel::MergeAll(Workspace* workspace) const {
  std::vector<Workspace::Symbol>& symbols = workspace->symbols_;
  std::vector<Workspace::Candidate>& queue = workspace->queue_;
  // The heap has the candidate with the lowest rank at its front. If several candidates have this
  // rank, the leftmost one is there.
  const auto later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  queue.clear();
  for (uint32_t i = 1; i < symbols.size(); ++i) PushCandidate(i - 1, i, workspace);
  std::make_heap(queue.begin(), queue.end(), later);

  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), later);
    const Workspace::Candidate candidate = queue.back();
    queue.pop_back();
    Workspace::Symbol& left = symbols[candidate.left];
    if (left.next == kMerged || left.next == kNoSymbol) continue;
    // The pair may have changed since it was queued. If the new pair has the same rank, it is also
    // the next pair to merge.
    const Merge* merge = FindMerge(left.id, symbols[left.next].id);
    if (merge == nullptr || merge->rank != candidate.rank) continue;

    Workspace::Symbol& right = symbols[left.next];
    left.id = merge->id;
    left.next = right.next;
    right.next = kMerged;
    if (left.next != kNoSymbol) symbols[left.next].previous = candidate.left;

    const auto push = [&](uint32_t first, uint32_t second) {
      if (first == kNoSymbol || second == kNoSymbol) return;
      const size_t before = queue.size();
      PushCandidate(first, second, workspace);
      if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), later);
    };
    push(left.previous, candidate.left);
    push(candidate.left, left.next);
  }
}

}  // namespace longstream
