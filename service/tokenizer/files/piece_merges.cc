// Makes the merges of a SentencePiece model from the scores of its pieces.
#include "service/tokenizer/files/piece_merges.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr size_t kMostMerges = 8'000'000;
constexpr size_t kMostBytes = size_t{64} << 20;

}  // namespace

absl::Status AddPieceMerges(TokenizerSpec* spec) {
  absl::flat_hash_map<std::string_view, double> scores;
  const absl::flat_hash_set<std::string_view> symbols(spec->symbols.begin(), spec->symbols.end());
  for (size_t i = 0; i < spec->vocabulary.size(); ++i) {
    const std::string_view text = spec->vocabulary[i].first;
    if (!symbols.contains(text)) scores.emplace(text, spec->scores[i]);
  }
  std::vector<double> ranked;
  for (const auto& [text, score] : scores) ranked.push_back(score);
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  size_t bytes = 0;
  for (const auto& [text, id] : spec->vocabulary) {
    const auto merged = scores.find(text);
    if (merged == scores.end()) continue;
    const auto rank =
        std::lower_bound(ranked.begin(), ranked.end(), merged->second, std::greater<>());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view whole = text;
      if (!scores.contains(whole.substr(0, cut)) || !scores.contains(whole.substr(cut))) continue;
      bytes += text.size();
      if (spec->merges.size() == kMostMerges || bytes > kMostBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected pieces that give at most ", kMostMerges, " merges of ",
                         kMostBytes, " bytes in all, found more up to token ", id));
      }
      spec->merges.emplace_back(text.substr(0, cut), text.substr(cut));
      spec->merge_ranks.push_back(static_cast<uint32_t>(rank - ranked.begin()));
    }
  }
  return absl::OkStatus();
}

}  // namespace longstream
