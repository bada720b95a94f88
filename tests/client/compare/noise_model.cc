// Draws prompts and tokens.
#include "tests/client/compare/noise_model.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace longstream::client {
namespace {

constexpr size_t kTokens = 32;

class Model {
 public:
  Model(const PlantedEffects& planted, std::mt19937_64* random)
      : planted_(planted), random_(*random) {}

  PromptRun Prompt() {
    PromptRun prompt;
    prompt.tokens = 256;
    prompt.arms.resize(2);
    prompt.pairs.resize(1);
    for (ArmRun& arm : prompt.arms) arm.tokens.resize(kTokens);
    prompt.pairs[0].resize(kTokens);
    const double hardness = 0.5 * Normal();
    const double deviations[2] = {0.02 * Normal(), 0.02 * Normal()};
    for (size_t i = 0; i < kTokens; ++i) DrawToken(&prompt, i, hardness, deviations);
    const double slowness = 0.3 * Normal();
    for (int arm = 0; arm < 2; ++arm) DrawTimes(&prompt.arms[arm], slowness, arm);
    return prompt;
  }

 private:
  double Normal() { return normal_(random_); }
  double Uniform() { return uniform_(random_); }

  void DrawToken(PromptRun* prompt, size_t i, double hardness, const double deviations[2]) {
    const double surprise = std::exp(hardness + 0.6 * Normal());
    double noise[2];
    double p[2];
    // One number decides whether both arms choose the token, except for one token in ten.
    const double common = Uniform();
    for (int arm = 0; arm < 2; ++arm) {
      noise[arm] = deviations[arm] + 0.03 * Normal();
      TokenScore& token = prompt->arms[arm].tokens[i];
      token.log_prob = std::min(0.0, -surprise + noise[arm] + (arm == 1 ? planted_.log_prob : 0));
      p[arm] = std::exp(token.log_prob);
      token.top1 = (Uniform() < 0.1 ? Uniform() : common) < p[arm];
      token.rank = token.top1 ? 0 : 1;
    }
    const double difference = noise[1] - noise[0];
    prompt->pairs[0][i] = {difference * difference,
                           prompt->arms[0].tokens[i].top1 == prompt->arms[1].tokens[i].top1,
                           p[1] - p[0]};
  }

  void DrawTimes(ArmRun* run, double slowness, int arm) {
    const double stall = Uniform() < 0.05 ? 0.5 * Uniform() : 0;
    run->ttft_seconds = 0.2 * std::exp(slowness + 0.05 * Normal() + stall);
    const double log_itl = slowness + 0.03 * Normal() + stall / 5 + arm * planted_.log_itl;
    run->itl_seconds.resize(kTokens - 1);
    for (double& seconds : run->itl_seconds) seconds = 0.01 * std::exp(log_itl + 0.1 * Normal());
    run->bytes = {1 << 20, 0, 0};
  }

  PlantedEffects planted_;
  std::mt19937_64& random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

}  // namespace

Comparison NoisyComparison(size_t prompts, uint32_t resamples, const PlantedEffects& planted,
                           std::mt19937_64* random) {
  Comparison comparison;
  comparison.plan.prompts = prompts;
  comparison.plan.resamples = resamples;
  comparison.plan.seed = (*random)();
  comparison.arms = {{"a", "a", "", "t"}, {"b", "b", "", "t"}};
  Model model(planted, random);
  for (size_t i = 0; i < prompts; ++i) {
    comparison.prompts.push_back(model.Prompt());
    comparison.prompts.back().id = std::to_string(i);
  }
  return comparison;
}

}  // namespace longstream::client
