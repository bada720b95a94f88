// The line through measured costs.
#include "service/routing/cost_line.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace longstream {

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

CostLine FitLine(std::span<const CostSample> samples) {
  if (samples.empty()) return {};
  std::vector<double> slopes;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = i + 1; j < samples.size(); ++j) {
      const double run = samples[j].depth - samples[i].depth;
      if (run != 0) slopes.push_back((samples[j].seconds - samples[i].seconds) / run);
    }
  }
  CostLine line;
  if (!slopes.empty()) line.slope = std::max(0.0, MedianOf(slopes));
  std::vector<CostSample> shallow(samples.begin(), samples.end());
  std::stable_sort(shallow.begin(), shallow.end(),
                   [](const CostSample& a, const CostSample& b) { return a.depth < b.depth; });
  shallow.resize((shallow.size() + 1) / 2);
  std::vector<double> bases;
  bases.reserve(shallow.size());
  for (const CostSample& sample : shallow) {
    bases.push_back(sample.seconds - line.slope * sample.depth);
  }
  line.base = std::max(0.0, MedianOf(bases));
  return line;
}

}  // namespace longstream
