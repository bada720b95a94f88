// Viterbi's algorithm over the bytes of a word. A trie gives the tokens that begin at each byte.
#include "service/tokenizer/models/unigram_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "service/tokenizer/models/byte_tokens.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

constexpr uint32_t kNowhere = 0xFFFFFFFFu;

}  // namespace

absl::StatusOr<UnigramModel> UnigramModel::Create(const TokenizerSpec& spec) {
  if (!spec.unk_id) {
    return absl::InvalidArgumentError(
        "model.unk_id: expected the id of the unknown token, found none");
  }
  UnigramModel model;
  model.unk_id_ = *spec.unk_id;
  model.unk_score_ = spec.unk_score;
  model.single_precision_ = spec.single_precision;
  model.byte_fallback_ = spec.byte_fallback;
  model.byte_ids_ = ByteTokens(spec);
  model.nodes_.resize(1);
  for (size_t i = 0; i < spec.vocabulary.size(); ++i) {
    const auto& [text, id] = spec.vocabulary[i];
    if (!std::isfinite(spec.scores[i])) {
      return absl::InvalidArgumentError(absl::StrCat("model.vocab: expected a finite score for \"",
                                                     text, "\", found ", spec.scores[i]));
    }
    if (text.size() > kMaxTokenBytes) {
      return absl::InvalidArgumentError(absl::StrCat("model.vocab: expected tokens of at most ",
                                                     kMaxTokenBytes, " bytes, found one of ",
                                                     text.size()));
    }
    model.AddToken(text, id, spec.scores[i]);
  }
  return model;
}

void UnigramModel::AddToken(std::string_view text, int32_t id, double score) {
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t key = uint64_t{node} << 8 | static_cast<unsigned char>(c);
    const auto [child, is_new] = children_.emplace(key, static_cast<uint32_t>(nodes_.size()));
    node = child->second;
    if (is_new) nodes_.emplace_back();
  }
  nodes_[node] = {id, score};
}

const UnigramModel::Node* UnigramModel::Child(uint32_t node, unsigned char byte,
                                              uint32_t* child) const {
  const auto found = children_.find(uint64_t{node} << 8 | byte);
  if (found == children_.end()) return nullptr;
  *child = found->second;
  return &nodes_[*child];
}

void UnigramModel::FindEnds(std::string_view word, Workspace* workspace) const {
  std::vector<Workspace::End>& ends = workspace->ends_;
  ends.assign(word.size() + 1, {0, kNowhere, unk_id_});
  const auto offer = [&](size_t begin, size_t end, int32_t id, double sum) {
    if (single_precision_) sum = static_cast<float>(sum);
    if (ends[end].begin != kNowhere && sum <= ends[end].score) return;
    ends[end] = {sum, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double score = ends[begin].score;
    size_t next = begin;
    NextCodePoint(word, &next);
    bool character_is_token = false;
    uint32_t node = 0;
    for (size_t end = begin; end < word.size();) {
      const Node* child = Child(node, static_cast<unsigned char>(word[end]), &node);
      if (child == nullptr) break;
      ++end;
      if (child->id < 0) continue;
      offer(begin, end, child->id, child->score + score);
      character_is_token = character_is_token || end == next;
    }
    if (!character_is_token) offer(begin, next, unk_id_, unk_score_ + score);
    begin = next;
  }
}

void UnigramModel::AppendUnknown(std::string_view run, std::vector<int32_t>* ids) const {
  // The run may be the text of the unknown token itself, which is in the vocabulary.
  uint32_t node = 0;
  const Node* last = nullptr;
  for (const char c : run) {
    last = Child(node, static_cast<unsigned char>(c), &node);
    if (last == nullptr) break;
  }
  const auto id_of = [this](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  const bool is_token = last != nullptr && last->id >= 0;
  if (!is_token && byte_fallback_ &&
      std::all_of(run.begin(), run.end(), [&](char c) { return id_of(c) != kNoId; })) {
    for (const char c : run) ids->push_back(id_of(c));
    return;
  }
  ids->push_back(is_token ? last->id : unk_id_);
}

void UnigramModel::Encode(std::string_view word, Workspace* workspace,
                          std::vector<int32_t>* ids) const {
  FindEnds(word, workspace);
  const std::vector<Workspace::End>& ends = workspace->ends_;
  std::vector<uint32_t>& cuts = workspace->cuts_;
  cuts.clear();
  for (auto end = static_cast<uint32_t>(word.size()); end > 0; end = ends[end].begin) {
    cuts.push_back(end);
  }
  for (size_t i = cuts.size(); i > 0;) {
    const Workspace::End& token = ends[cuts[--i]];
    if (token.id != unk_id_) {
      ids->push_back(token.id);
      continue;
    }
    while (i > 0 && ends[cuts[i - 1]].id == unk_id_) --i;
    AppendUnknown(word.substr(token.begin, cuts[i] - token.begin), ids);
  }
}

}  // namespace longstream
