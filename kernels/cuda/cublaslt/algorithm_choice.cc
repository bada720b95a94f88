// Chooses the fastest of the proposed algorithms that serve.
#include "kernels/cuda/cublaslt/algorithm_choice.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

namespace longstream::cuda {
namespace {

std::vector<Algorithm> Servants(AlgorithmSource& source, const ProductShape& shape) {
  std::vector<Algorithm> servants;
  std::vector<Algorithm> seen;
  for (const int64_t rows : kTimedRows) {
    for (const Algorithm& algorithm : source.Propose(shape, rows, kMaxProposals)) {
      if (std::find(seen.begin(), seen.end(), algorithm) != seen.end()) continue;
      seen.push_back(algorithm);
      if (ServesAll(source, shape, algorithm)) servants.push_back(algorithm);
    }
  }
  return servants;
}

}  // namespace

bool ServesAll(AlgorithmSource& source, const ProductShape& shape, const Algorithm& algorithm) {
  return source.SumsInOneSequence(algorithm) &&
         std::all_of(std::begin(kServedRows), std::end(kServedRows),
                     [&](int64_t rows) { return source.Serves(shape, rows, algorithm); });
}

std::optional<AlgorithmChoice> ChooseAlgorithm(AlgorithmSource& source, const ProductShape& shape) {
  const std::vector<Algorithm> servants = Servants(source, shape);
  if (servants.empty()) return std::nullopt;
  AlgorithmChoice choice = {servants.front(), false};
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : servants) {
    double seconds = 0;
    for (const int64_t rows : kTimedRows) seconds += source.Seconds(shape, rows, algorithm);
    if (!(seconds < least)) continue;
    least = seconds;
    choice = {algorithm, true};
  }
  return choice;
}

std::string WhyNoneServes(AlgorithmSource& source, const ProductShape& shape) {
  int proposed = 0;
  int divide = 0;
  std::map<int64_t, int> fail_at;  // the first of kServedRows at which an algorithm fails
  for (const int64_t rows : kTimedRows) {
    for (const Algorithm& algorithm : source.Propose(shape, rows, kMaxProposals)) {
      ++proposed;
      if (!source.SumsInOneSequence(algorithm)) {
        ++divide;
        continue;
      }
      const auto* const failed =
          std::find_if(std::begin(kServedRows), std::end(kServedRows),
                       [&](int64_t served) { return !source.Serves(shape, served, algorithm); });
      if (failed != std::end(kServedRows)) ++fail_at[*failed];
    }
  }
  std::string why = "of " + std::to_string(proposed) + " proposed algorithms " +
                    std::to_string(divide) + " divide their sums";
  for (const auto& [rows, count] : fail_at) {
    why += ", " + std::to_string(count) + " fail at " + std::to_string(rows) + " rows";
  }
  return why;
}

}  // namespace longstream::cuda
