// Byte pair encoding: symbols in a linked list, possible merges in a heap.
#include "service/tokenizer/bpe_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/tokenizer/byte_alphabet.h"

namespace longstream {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFFu;
constexpr uint32_t kMerged = 0xFFFFFFFEu;

// Bytes that no UTF-8 text contains; some vocabularies have no token for them.
bool OccursInUtf8(int byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<BpeModel> BpeModel::Create(const TokenizerSpec& spec) {
  const absl::flat_hash_map<std::string, int32_t> vocabulary(spec.vocabulary.begin(),
                                                             spec.vocabulary.end());
  BpeModel model;
  if (absl::Status status = model.AddBytes(vocabulary); !status.ok()) return status;
  if (absl::Status status = model.AddMerges(spec, vocabulary); !status.ok()) return status;
  if (spec.ignore_merges) {
    for (const auto& [text, id] : spec.vocabulary) {
      // What is not written in the alphabet is no word.
      if (auto bytes = AlphabetToBytes(text)) model.words_.emplace(*std::move(bytes), id);
    }
  }
  return model;
}

absl::Status BpeModel::AddBytes(const absl::flat_hash_map<std::string, int32_t>& vocabulary) {
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

absl::Status BpeModel::AddMerges(const TokenizerSpec& spec,
                                 const absl::flat_hash_map<std::string, int32_t>& vocabulary) {
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
                         texts[i], "\", which is none"));
      }
      ids[i] = token->second;
    }
    // Of merges of the same pair the last one counts, as in the reference implementation.
    merges_[PairKey(ids[0], ids[1])] = {static_cast<uint32_t>(rank), ids[2]};
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
  symbols.resize(word.size());
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(word[i])], i - 1, i + 1};
  }
  symbols.front().previous = kNone;
  symbols.back().next = kNone;
  MergeAll(workspace);
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) ids->push_back(symbols[i].id);
}

// Adds the merge of two neighbours to the queue, if there is one.
void BpeModel::PushCandidate(uint32_t left, uint32_t right, Workspace* workspace) const {
  const std::vector<Workspace::Symbol>& symbols = workspace->symbols_;
  if (const Merge* merge = FindMerge(symbols[left].id, symbols[right].id)) {
    workspace->queue_.push_back({merge->rank, left});
  }
}

void BpeModel::MergeAll(Workspace* workspace) const {
  std::vector<Workspace::Symbol>& symbols = workspace->symbols_;
  std::vector<Workspace::Candidate>& queue = workspace->queue_;
  // A heap has its greatest element at the front: the lowest rank, then the leftmost place.
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
    if (left.next == kMerged || left.next == kNone) continue;
    // The pair may have become another one since; a rank belongs to one pair only.
    const Merge* merge = FindMerge(left.id, symbols[left.next].id);
    if (merge == nullptr || merge->rank != candidate.rank) continue;

    Workspace::Symbol& right = symbols[left.next];
    left.id = merge->id;
    left.next = right.next;
    right.next = kMerged;
    if (left.next != kNone) symbols[left.next].previous = candidate.left;

    const auto push = [&](uint32_t first, uint32_t second) {
      if (first == kNone || second == kNone) return;
      const size_t before = queue.size();
      PushCandidate(first, second, workspace);
      if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), later);
    };
    push(left.previous, candidate.left);
    push(candidate.left, left.next);
  }
}

}  // namespace longstream
