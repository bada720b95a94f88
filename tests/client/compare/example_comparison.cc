// Draws the values of the example.
#include "tests/client/compare/example_comparison.h"

#include <array>
#include <cmath>
#include <random>
#include <string>

namespace longstream::client {
namespace {

constexpr size_t kTokens = 64;
constexpr std::array<const char*, 12> kWords = {"the ",    "session", " holds", " 42 ",
                                                "pages",   ", ",      "a ring", " & a ",
                                                "<state>", " of ",    "ключи",  ".\n"};

struct ArmShape {
  double drift;  // grows with the position
  double speed;
  double kv_per_token;
  uint64_t window;
  uint64_t state;
};
constexpr std::array<ArmShape, 3> kShapes = {
    {{0, 1, 2048, 0, 0}, {0.01, 0.9, 512, 262144, 0}, {0.25, 0.7, 128, 131072, 196608}}};

class ExampleMaker {
 public:
  PromptRun Prompt(size_t index) {
    PromptRun prompt;
    prompt.id = "held-out/" + std::to_string(index);
    prompt.tokens = std::array<uint64_t, 3>{256, 1024, 4096}[index % 3];
    prompt.arms.resize(kShapes.size());
    prompt.pairs.resize(kShapes.size() - 1);
    for (size_t i = 0; i < kTokens; ++i) AddToken(i, &prompt);
    for (size_t arm = 0; arm < kShapes.size(); ++arm) AddCosts(arm, &prompt);
    return prompt;
  }

 private:
  void AddToken(size_t i, PromptRun* prompt) {
    const std::string word = kWords[random_() % kWords.size()];
    const double base = -std::exp(0.7 * normal_(random_));
    for (size_t arm = 0; arm < kShapes.size(); ++arm) {
      const double drift = kShapes[arm].drift * std::log2(2.0 + static_cast<double>(i)) / 6;
      const double deviation = drift * normal_(random_);
      TokenScore token;
      token.log_prob = std::min(-0.001, base + deviation - drift * drift / 2);
      const bool agrees = arm == 0 || std::abs(deviation) < 0.5 * std::abs(0.2 + base);
      token.top1 = (base > -0.9) == agrees;
      token.rank = token.top1 ? 0 : 1;
      token.text = word;
      token.top1_text = agrees ? word : kWords[(random_() + 1) % kWords.size()];
      prompt->arms[arm].tokens.push_back(token);
      prompt->arms[arm].text += word;
      if (arm == 0) continue;
      const double first = std::exp(prompt->arms[0].tokens[i].log_prob);
      prompt->pairs[arm - 1].push_back(
          {deviation * deviation / 2, agrees, std::exp(token.log_prob) - first});
    }
  }

  void AddCosts(size_t arm, PromptRun* prompt) {
    ArmRun& run = prompt->arms[arm];
    const ArmShape& shape = kShapes[arm];
    const double tokens = static_cast<double>(prompt->tokens);
    run.ttft_seconds = 2e-4 * tokens * shape.speed * std::exp(0.05 * normal_(random_));
    for (size_t i = 1; i < kTokens; ++i) {
      const double seconds = 0.004 + 1e-6 * tokens * shape.kv_per_token / 2048;
      run.itl_seconds.push_back(seconds * std::exp(0.1 * normal_(random_)));
    }
    run.bytes = {static_cast<uint64_t>(shape.kv_per_token * (tokens + kTokens)), shape.window,
                 shape.state};
    run.reused_tokens = arm == 0 ? 0 : prompt->tokens / 2;
    run.bits_per_byte = 1.5 + 0.1 * static_cast<double>(arm) + 0.05 * normal_(random_);
  }

  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_;
};

}  // namespace

Comparison ExampleComparison(size_t prompts) {
  Comparison comparison;
  comparison.plan.prompts = prompts;
  comparison.plan.resamples = 1999;
  comparison.forced_by = "dense";
  comparison.server = "longstream-server 0.1.0";
  comparison.measured_at = "2026-11-28 14:00 UTC";
  comparison.arms = {{"dense", "dense", "9f2c71aa", "bytes-256"},
                     {"hwfa2", "hwfa2", "50b1e3d0", "bytes-256"},
                     {"hypenet", "hypenet", "c4470be9", "bytes-256"}};
  ExampleMaker example;
  for (size_t i = 0; i < prompts; ++i) comparison.prompts.push_back(example.Prompt(i));
  return comparison;
}

}  // namespace longstream::client
