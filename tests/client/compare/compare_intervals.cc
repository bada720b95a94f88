// Reads samples from standard input and writes their intervals to standard output, both as JSON.
// tools/golden/compare/compare_statistics.py compares them with SciPy's.
#include <iostream>

#include "client/compare/paired_statistics.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

nlohmann::json Answer(const nlohmann::json& question) {
  nlohmann::json answer = {{"samples", nlohmann::json::array()}, {"holm", nlohmann::json::array()}};
  for (const nlohmann::json& sample : question["samples"]) {
    const auto values = sample.get<std::vector<double>>();
    const StudentisedBootstrap bootstrap(values, question["seed"], question["resamples"]);
    nlohmann::json intervals = nlohmann::json::array();
    for (const nlohmann::json& alpha : question["alphas"]) {
      const Interval interval = bootstrap.Confidence(alpha);
      intervals.push_back({interval.low, interval.high});
    }
    answer["samples"].push_back(
        {{"mean", bootstrap.mean()}, {"p", bootstrap.PValue(0)}, {"intervals", intervals}});
  }
  for (const nlohmann::json& p_values : question["p_values"]) {
    nlohmann::json adjusted = nlohmann::json::array();
    for (const HolmDecision& decision : Holm(p_values.get<std::vector<double>>(), 0.05)) {
      adjusted.push_back(decision.p);
    }
    answer["holm"].push_back(adjusted);
  }
  return answer;
}

}  // namespace
}  // namespace longstream::client

int main() {
  std::cout << longstream::client::Answer(nlohmann::json::parse(std::cin)).dump() << std::endl;
  return std::cout.good() ? 0 : 1;
}
