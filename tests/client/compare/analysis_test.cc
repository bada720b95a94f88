// Positions, lengths, flips, latencies and memory, worked out by hand; sentences.
#include "client/compare/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "client/compare/wording.h"
#include "tests/client/compare/example_comparison.h"

namespace longstream::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// One prompt with `tokens` tokens on two arms that agree in all of them.
PromptRun Prompt(const std::string& id, uint64_t length, size_t tokens) {
  PromptRun prompt;
  prompt.id = id;
  prompt.tokens = length;
  prompt.arms.resize(2);
  for (ArmRun& arm : prompt.arms) {
    for (size_t i = 0; i < tokens; ++i) {
      const std::string text(1, static_cast<char>('a' + i % 26));
      arm.tokens.push_back({-1, 0, true, text, text});
    }
  }
  prompt.pairs = {std::vector<PairToken>(tokens)};
  return prompt;
}

Comparison TwoArms(std::vector<PromptRun> prompts) {
  Comparison comparison;
  comparison.plan.prompts = prompts.size();
  comparison.plan.resamples = 99;
  comparison.arms = {{"dense", "m", "", "t"}, {"hybrid", "n", "", "t"}};
  comparison.prompts = std::move(prompts);
  return comparison;
}

TEST(AnalyzeTest, PositionsDouble) {
  Comparison comparison = TwoArms({Prompt("a", 4, 5), Prompt("b", 4, 3)});
  comparison.prompts[0].pairs[0][2] = {0.4, false, 0};
  comparison.prompts[1].pairs[0][2] = {0.8, true, 0};
  const auto rows = Analyze(comparison).pairs[0].positions;
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[0].first, 0);
  EXPECT_EQ(rows[0].last, 0);
  EXPECT_EQ(rows[1].first, 1);
  EXPECT_EQ(rows[1].last, 1);
  EXPECT_EQ(rows[2].first, 2);
  EXPECT_EQ(rows[2].last, 3);
  EXPECT_EQ(rows[3].first, 4);
  EXPECT_EQ(rows[3].last, 4);
  // Prompt a has the KLs 0.4 and 0 there, prompt b only 0.8.
  EXPECT_DOUBLE_EQ(rows[2].kl.mean, 0.5);
  EXPECT_DOUBLE_EQ(rows[2].agreement.mean, 0.75);
  EXPECT_EQ(rows[2].prompts, 2);
  EXPECT_EQ(rows[3].prompts, 1);
  EXPECT_EQ(rows[3].agreement.mean, 1);
  // Wilson's interval of one token in one: 1 / (1 + 1.96^2) ... 1.
  EXPECT_NEAR(rows[3].agreement.interval.low, 0.2065, 1e-4);
  EXPECT_NEAR(rows[3].agreement.interval.high, 1, 1e-9);
  // Two prompts, 0.5 and 1: se is 0.25, so three tokens count.
  EXPECT_NEAR(rows[2].agreement.interval.low, 0.2561, 1e-4);
}

TEST(AnalyzeTest, FlipsHaveTheTextAround) {
  Comparison comparison =
      TwoArms({Prompt("late", 4, 100), Prompt("none", 4, 9), Prompt("early", 4, 9)});
  comparison.prompts[0].pairs[0][90] = {0.5, false, 0};
  comparison.prompts[0].pairs[0][95] = {0.5, false, 0};
  comparison.prompts[2].pairs[0][3] = {0.25, false, 0};
  comparison.prompts[2].arms[0].tokens[3].top1_text = "X";
  comparison.prompts[2].arms[1].tokens[3].top1_text = std::string(1000, 'Y');
  comparison.prompts[2].arms[0].tokens[1].text = std::string(60, 'b');
  comparison.prompts[2].arms[0].tokens[2].text = "\xc3\xa9" + std::string(19, 'c');
  const PairAnalysis pair = Analyze(comparison).pairs[0];
  EXPECT_EQ(pair.flipped, 2);
  EXPECT_DOUBLE_EQ(pair.median_flip, 46.5);
  ASSERT_EQ(pair.flips.size(), 2);
  const Flip& flip = pair.flips[0];
  EXPECT_EQ(comparison.prompts[flip.prompt].id, "early");
  EXPECT_EQ(flip.position, 3);
  EXPECT_EQ(flip.before, std::string(59, 'b') + "\xc3\xa9" + std::string(19, 'c'));
  EXPECT_EQ(flip.after, "defghi");
  EXPECT_EQ(flip.baseline_choice, "X");
  EXPECT_EQ(flip.other_choice, std::string(kFlipContext, 'Y'));
  EXPECT_EQ(flip.kl, 0.25);
  EXPECT_EQ(pair.flips[1].position, 90);
  EXPECT_EQ(pair.flips[1].before.size(), kFlipContext);
}

TEST(AnalyzeTest, CutsBetweenCharacters) {
  Comparison comparison = TwoArms({Prompt("p", 4, 3)});
  std::string text;
  for (int i = 0; i < 60; ++i) text += "\xe2\x82\xac";
  for (TokenScore& token : comparison.prompts[0].arms[0].tokens) token.text = text;
  comparison.prompts[0].pairs[0][1].agrees = false;
  const Flip flip = Analyze(comparison).pairs[0].flips[0];
  EXPECT_EQ(flip.before, text.substr(0, 78));
  EXPECT_EQ(flip.after, text.substr(0, 78));
}

TEST(AnalyzeTest, ManyFlipsAreCountedAndFewAreShown) {
  std::vector<PromptRun> prompts;
  for (int i = 0; i < 30; ++i) {
    prompts.push_back(Prompt(std::to_string(i), 4, 40));
    prompts.back().pairs[0][static_cast<size_t>(30 - i)].agrees = false;
  }
  const PairAnalysis pair = Analyze(TwoArms(prompts)).pairs[0];
  EXPECT_EQ(pair.flipped, 30);
  EXPECT_EQ(pair.flips.size(), kMostFlips);
  EXPECT_EQ(pair.flips[0].position, 1);
}

TEST(AnalyzeTest, LengthsAreGroupedByPowersOfTwo) {
  Comparison comparison = TwoArms({Prompt("a", 255, 1), Prompt("b", 256, 1), Prompt("c", 511, 1)});
  comparison.prompts[1].arms[0].bytes = {100, 0, 0};
  comparison.prompts[1].arms[1].bytes = {20, 4, 1};
  comparison.prompts[2].arms[0].bytes = {100, 0, 0};
  comparison.prompts[2].arms[1].bytes = {64, 0, 0};
  const Analysis analysis = Analyze(comparison);
  const auto& rows = analysis.pairs[0].lengths;
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].first, 128);
  EXPECT_EQ(rows[0].last, 255);
  EXPECT_TRUE(std::isnan(rows[0].bytes_ratio));
  EXPECT_EQ(rows[1].first, 256);
  EXPECT_EQ(rows[1].last, 511);
  EXPECT_EQ(rows[1].shortest, 256);
  EXPECT_EQ(rows[1].longest, 511);
  EXPECT_EQ(rows[1].prompts, 2);
  EXPECT_DOUBLE_EQ(rows[1].tokens, 384.5);
  EXPECT_DOUBLE_EQ(rows[1].bytes_ratio, 0.4);  // sqrt(0.25 * 0.64)
  const auto& memory = analysis.arms[1].memory;
  ASSERT_EQ(memory.size(), 2);
  EXPECT_DOUBLE_EQ(memory[1].kv, 42);
  EXPECT_DOUBLE_EQ(memory[1].window, 2);
  EXPECT_DOUBLE_EQ(memory[1].total(), 44.5);
}

TEST(AnalyzeTest, LatenciesAscend) {
  Comparison comparison = TwoArms({Prompt("a", 4, 1), Prompt("b", 4, 1), Prompt("c", 4, 1)});
  comparison.prompts[0].arms[0].ttft_seconds = 2;
  comparison.prompts[0].arms[0].itl_seconds = {0.3, 0.1};
  comparison.prompts[1].arms[0].ttft_seconds = 1;
  comparison.prompts[1].arms[0].itl_seconds = {0.2};
  comparison.prompts[2].arms[0] = {};
  comparison.prompts[2].arms[0].error = "UNAVAILABLE";
  const ArmAnalysis arm = Analyze(comparison).arms[0];
  EXPECT_THAT(arm.ttft_seconds, ElementsAre(1, 2));
  EXPECT_THAT(arm.itl_seconds, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_EQ(arm.prompts, 2);
  EXPECT_EQ(arm.lost, 1);
}

TEST(AnalyzeTest, OtherTokenizersHaveNoPositions) {
  Comparison comparison = ExampleComparison(30);
  comparison.arms[2].tokenizer = "other";
  const Analysis analysis = Analyze(comparison);
  EXPECT_FALSE(analysis.pairs[0].positions.empty());
  EXPECT_TRUE(analysis.pairs[1].positions.empty());
  EXPECT_TRUE(analysis.pairs[1].flips.empty());
  EXPECT_NE(Find(analysis.pairs[1].metrics, Metric::kBitsPerByte), nullptr);
  EXPECT_EQ(Find(analysis.pairs[1].metrics, Metric::kKl), nullptr);
  EXPECT_THAT(PairSentence(comparison, analysis.pairs[1]),
              HasSubstr("Token metrics are not comparable, because the tokenizers differ."));
}

TEST(PairSentenceTest, SaysWhatAnEngineerWantsToKnow) {
  const Comparison comparison = ExampleComparison(60);
  const Analysis analysis = Analyze(comparison);
  EXPECT_EQ(analysis.pairs[0].verdict, PairVerdict::kEqual);
  EXPECT_THAT(PairSentence(comparison, analysis.pairs[0]),
              StartsWith("hwfa2 equals dense within the stated minimum effects: KL "));
  EXPECT_EQ(analysis.pairs[1].verdict, PairVerdict::kDifferent);
  EXPECT_THAT(PairSentence(comparison, analysis.pairs[1]),
              testing::ContainsRegex(
                  "^hypenet is different from dense: it predicts the text worse with "
                  "prompts of 256–4096 tokens \\(\\+0\\.[0-9]+ to \\+0\\.[0-9]+ bits per "
                  "byte\\); KL 0\\.[0-9]+ nats "
                  "\\[0\\.[0-9]+, 0\\.[0-9]+\\], agreement [0-9.]+ % "
                  "\\[[0-9.]+, [0-9.]+\\]; it needs 0\\.[0-9]+ of the bytes at "
                  "4160 tokens; TTFT 0\\.[0-9]+× \\[.*\\], ITL .*\\.$"));
}

TEST(PairSentenceTest, NamesMetricsThatItDoesNotShow) {
  Comparison comparison = ExampleComparison(60);
  for (PromptRun& prompt : comparison.prompts) {
    for (TokenScore& token : prompt.arms[1].tokens) token.log_prob -= 0.1;
  }
  EXPECT_THAT(PairSentence(comparison, Analyze(comparison).pairs[0]),
              StartsWith("hwfa2 is different from dense in Log-probability: it predicts "));
}

// Bits per byte of hypenet less those of dense, with prompts of 256, 1024 and 4096 tokens.
std::string DirectionOfHypenet(double short_ones, double middle, double long_ones) {
  Comparison comparison = ExampleComparison(60);
  comparison.forced_by = "the answers of dense";
  for (size_t i = 0; i < comparison.prompts.size(); ++i) {
    PromptRun& prompt = comparison.prompts[i];
    const double difference = std::array{short_ones, middle, long_ones}[i % 3];
    const double noise = 0.001 * (static_cast<double>(i / 3) - 9.5);
    prompt.arms[2].bits_per_byte = prompt.arms[0].bits_per_byte + difference + noise;
  }
  const std::string sentence = PairSentence(comparison, Analyze(comparison).pairs[1]);
  const size_t begin = sentence.find(": ") + 2;
  return sentence.substr(begin, sentence.find("; KL ") - begin);
}

TEST(PairSentenceTest, NamesTheDirectionAndTheLengths) {
  EXPECT_EQ(DirectionOfHypenet(0.2, 0, -0.4),
            "it predicts the answers of dense worse with prompts of 256 tokens (+0.200 bits per "
            "byte), better with prompts of 4096 tokens (-0.400 bits per byte), no certain "
            "difference with prompts of 1024 tokens");
  EXPECT_EQ(DirectionOfHypenet(-0.3, -0.2, -0.1),
            "it predicts the answers of dense better with prompts of 256–4096 tokens (-0.300 to "
            "-0.100 bits per byte)");
  EXPECT_EQ(DirectionOfHypenet(0, 0.1, 0.2),
            "it predicts the answers of dense worse with prompts of 1024–4096 tokens (+0.100 to "
            "+0.200 bits per byte), no certain difference with prompts of 256 tokens");
  EXPECT_THAT(DirectionOfHypenet(0, 0, 0),
              StartsWith("neither predicts the answers of dense certainly better ("));
}

// With prompts of one length, the sentence has the interval over all prompts.
TEST(PairSentenceTest, OneLengthNeedsNoLengths) {
  Comparison comparison = ExampleComparison(30);
  for (PromptRun& prompt : comparison.prompts) prompt.tokens = 300;
  EXPECT_THAT(
      PairSentence(comparison, Analyze(comparison).pairs[1]),
      testing::ContainsRegex("^hypenet is different from dense: it predicts the text worse "
                             "\\(\\+0\\.[0-9]+ bits per byte \\[0\\.[0-9]+, 0\\.[0-9]+\\]\\);"));
}

TEST(PairSentenceTest, FreeRunningArmsHaveNoDirection) {
  Comparison comparison = ExampleComparison(60);
  comparison.teacher_forced = false;
  const Analysis analysis = Analyze(comparison);
  EXPECT_THAT(PairSentence(comparison, analysis.pairs[1]),
              StartsWith("hypenet is different from dense: KL "));
  EXPECT_TRUE(std::isnan(analysis.pairs[1].lengths[0].bits_per_byte.mean));
}

TEST(PairSentenceTest, TooFewInterimAndLost) {
  Comparison comparison = ExampleComparison(12);
  Analysis analysis = Analyze(comparison);
  EXPECT_EQ(analysis.pairs[1].verdict, PairVerdict::kTooFew);
  EXPECT_GE(analysis.pairs[1].more_prompts, 8);
  EXPECT_THAT(
      PairSentence(comparison, analysis.pairs[1]),
      StartsWith("12 prompts are too few to tell hypenet from dense (" +
                 std::to_string(analysis.pairs[1].more_prompts) + " more would decide): KL "));
  comparison.plan.prompts = 50;
  analysis = Analyze(comparison);
  EXPECT_TRUE(analysis.interim);
  EXPECT_THAT(
      PairSentence(comparison, analysis.pairs[1]),
      StartsWith("Interim, no verdict (12 prompts, 50 planned): hypenet against dense: KL "));
  for (PromptRun& prompt : comparison.prompts) prompt.arms[2].error = "UNAVAILABLE";
  analysis = Analyze(comparison);
  EXPECT_EQ(PairSentence(comparison, analysis.pairs[1]),
            "Nothing is known about hypenet: of every prompt, it or dense was lost.");
  comparison = ExampleComparison(1);
  analysis = Analyze(comparison);
  EXPECT_THAT(PairSentence(comparison, analysis.pairs[0]),
              StartsWith("1 prompt is too few to tell hwfa2 from dense: KL "));
  EXPECT_THAT(PairSentence(comparison, analysis.pairs[0]), Not(HasSubstr("nan")));
}

TEST(WordingTest, Numbers) {
  EXPECT_EQ(Significant(0.03104, 3), "0.0310");
  EXPECT_EQ(Significant(0.99996, 3), "1.00");
  EXPECT_EQ(Significant(-96.24, 3), "-96.2");
  EXPECT_EQ(Significant(123456, 3), "123456");
  EXPECT_EQ(Significant(1.5e9, 3), "1.50e+09");
  EXPECT_EQ(Significant(1.23e-7, 2), "1.2e-07");
  EXPECT_EQ(Significant(0, 3), "0");
  EXPECT_EQ(Significant(NAN, 3), "–");
  EXPECT_EQ(Significant(-INFINITY, 3), "-∞");
  EXPECT_EQ(ValueText(MetricUnit::kPercent, 0.962), "96.2 %");
  EXPECT_EQ(ValueText(MetricUnit::kRatio, std::log(0.8)), "0.800×");
  EXPECT_EQ(DifferenceText(MetricUnit::kNats, 0.5), "+0.500 nats");
  EXPECT_EQ(DifferenceText(MetricUnit::kBits, -0.5), "-0.500 bits");
  EXPECT_EQ(IntervalText(MetricUnit::kRatio, {-INFINITY, INFINITY}), "[0, ∞]");
  EXPECT_EQ(BytesText(1536), "1.50 KiB");
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(SecondsText(0.0123), "12.3 ms");
  EXPECT_EQ(SecondsText(2e-5), "20.0 µs");
  EXPECT_EQ(SecondsText(12), "12.0 s");
  EXPECT_EQ(Trimmed("20.0 ms"), "20 ms");
  EXPECT_EQ(Trimmed("0.0100 nats"), "0.01 nats");
  EXPECT_EQ(Trimmed("1.05×"), "1.05×");
  EXPECT_EQ(Trimmed("100"), "100");
  EXPECT_EQ(Trimmed("–"), "–");
  EXPECT_EQ(Trimmed("1.00e-07"), "1e-07");
  EXPECT_EQ(RangeText(4, 7), "4–7");
  EXPECT_EQ(RangeText(4, 4), "4");
  MetricResult result;
  result.metric = Metric::kBitsPerByte;
  result.mean = -0.1;
  const auto text = [&](Verdict verdict, uint64_t more_prompts = 0) {
    result.decision = {verdict, more_prompts};
    return DecisionText(result);
  };
  EXPECT_EQ(text(Verdict::kTooFew, 1), "too few: 1 more prompt would decide");
  EXPECT_EQ(text(Verdict::kEqual), "equal within δ");
  EXPECT_EQ(text(Verdict::kDifferent), "different: better") << "fewer bits";
  result.metric = Metric::kTop1;
  EXPECT_EQ(text(Verdict::kDifferent), "different: worse") << "less accuracy";
  result.mean = 0.1;
  EXPECT_EQ(text(Verdict::kDifferent), "different: better");
  result.metric = Metric::kTtft;
  EXPECT_EQ(text(Verdict::kDifferent), "different: worse") << "more time";
  EXPECT_EQ(text(Verdict::kEqual), "equal within δ");
  result.metric = Metric::kKl;
  EXPECT_EQ(text(Verdict::kOver), "over δ") << "a distance has no direction";
}

}  // namespace
}  // namespace longstream::client
