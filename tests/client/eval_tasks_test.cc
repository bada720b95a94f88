// The questions of `longstream eval`: the context of each question contains its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "client/eval/tasks.h"

namespace longstream::client {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

size_t Occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PasskeyTest, TheNumberStandsOnceAtItsDepth) {
  for (const double depth : {0.0, 0.3, 0.99}) {
    const Sample sample = Draw(Passkey(), 20000, depth, 7);
    ASSERT_EQ(sample.questions.size(), 1u);
    const Question& question = sample.questions[0];
    EXPECT_EQ(question.text, "What is the pass key? The pass key is");
    EXPECT_EQ(question.answer.size(), 5u);
    EXPECT_NE(question.answer[0], '0');
    EXPECT_EQ(question.depth, depth);
    const std::string needle = "The pass key is " + question.answer + ". Remember it, " +
                               question.answer + " is the pass key.\n";
    EXPECT_EQ(Occurrences(sample.context, needle), 1u);
    EXPECT_EQ(Occurrences(sample.context, question.answer), 2u);
    // The needle is placed after the last line break before its depth.
    const double at = static_cast<double>(sample.context.find(needle));
    EXPECT_NEAR(at, depth * static_cast<double>(sample.context.size()), 400);
    if (at > 0) {
      EXPECT_EQ(sample.context[static_cast<size_t>(at) - 1], '\n');
    }
    EXPECT_LE(sample.context.size() + question.text.size(), 20000u);
    EXPECT_GE(sample.context.size() + question.text.size(), 19700u);
  }
}

TEST(PasskeyTest, NeedlesBeginALineInShortTextsToo) {
  for (int i = 0; i < 50; ++i) {
    const std::string context = Draw(Passkey(), 200 + 20 * i, i / 50.0, 3).context;
    EXPECT_EQ(Occurrences("\n" + context, "\nThe pass key is "), 1u) << context;
  }
}

TEST(PasskeyTest, TheSeedSaysAll) {
  const Sample one = Draw(Passkey(), 1000, 0.5, 1);
  EXPECT_EQ(Draw(Passkey(), 1000, 0.5, 1).context, one.context);
  EXPECT_NE(Draw(Passkey(), 1000, 0.5, 2).questions[0].answer, one.questions[0].answer);
}

TEST(PasskeyTest, TextsOfTheCallers) {
  Passkey task;
  task.digits = 3;
  task.filler = "eins\nzwei\n";
  task.needle = "KEY = {}";
  task.question = "assert {} == KEY";
  const Sample sample = Draw(task, 100, 1.0, 3);
  const std::string key = sample.questions[0].answer;
  EXPECT_EQ(key.size(), 3u);
  EXPECT_THAT(sample.context, StartsWith("eins\nzwei\neins\n"));
  EXPECT_THAT(sample.context, EndsWith("\nKEY = " + key + "\n"));
  EXPECT_EQ(sample.questions[0].text, "assert");
}

TEST(PasskeyTest, FillerWithoutLinesIsCutBetweenCharacters) {
  Passkey task;
  task.filler = "\xc3\xa4";
  for (size_t bytes = 140; bytes < 144; ++bytes) {
    const std::string context = Draw(task, bytes, 0.5, 3).context;
    EXPECT_EQ(Occurrences(context, "\xc3"), Occurrences(context, "\xc3\xa4")) << context;
    EXPECT_EQ(Occurrences(context, "\xa4"), Occurrences(context, "\xc3\xa4")) << context;
  }
}

TEST(PasskeyTest, ThereIsAlwaysRoomForNeedleAndQuestion) {
  const Sample sample = Draw(Passkey(), 0, 0.5, 3);
  EXPECT_THAT(sample.context, StartsWith("The pass key is "));
  EXPECT_EQ(Occurrences(sample.context, "\n"), 1u);
}

// Evaluates an expression of ListOps. DrawLong and its parts write expressions by recursion; this
// function reads them with a stack.
int Evaluate(const std::string& expression) {
  std::string spaced;
  for (const char c : expression) spaced += c == ']' ? " ]" : std::string(1, c);
  std::istringstream words(spaced);
  std::vector<std::pair<std::string, std::vector<int>>> open;
  int value = -1;
  for (std::string word; words >> word;) {
    if (word[0] == '[') {
      open.emplace_back(word.substr(1), std::vector<int>());
      continue;
    }
    if (word == "]") {
      auto [name, values] = open.back();
      open.pop_back();
      std::sort(values.begin(), values.end());
      const size_t middle = values.size() % 2 == 1 ? values.size() / 2 : values.size() / 2 - 1;
      value = name == "MIN"   ? values[0]
              : name == "MAX" ? values[values.size() - 1]
              : name == "MED" ? values[middle]
                              : std::accumulate(values.begin(), values.end(), 0) % 10;
    } else {
      value = std::stoi(word);
    }
    if (!open.empty()) open.back().second.push_back(value);
  }
  EXPECT_TRUE(open.empty()) << expression;
  return value;
}

TEST(ListOpsTest, EveryAnswerIsTheExpressionsValue) {
  ASSERT_EQ(Evaluate("[SM 9 [MED 4 2 8 6] [MIN 3 1] [MAX 3 7]]"), 1);
  std::string operators;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Sample sample = Draw(ListOps(), 60 + seed * 10, seed);
    std::istringstream lines(sample.context + sample.questions[0].text + " " +
                             sample.questions[0].answer + "\n");
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const size_t equals = line.find(" = ");
      ASSERT_NE(equals, std::string::npos) << line;
      EXPECT_EQ(std::to_string(Evaluate(line.substr(0, equals))), line.substr(equals + 3));
      operators += line;
    }
    EXPECT_EQ(count, ListOps().examples + 1);
  }
  for (const char* name : {"[MIN ", "[MAX ", "[MED ", "[SM "}) {
    EXPECT_THAT(operators, HasSubstr(name));
  }
}

TEST(ListOpsTest, IsAsLongAsAsked) {
  for (const size_t bytes : {128u, 500u, 5000u, 50000u}) {
    const Sample sample = Draw(ListOps(), bytes, 3);
    const size_t size = sample.context.size() + sample.questions[0].text.size();
    EXPECT_LE(size, bytes);
    EXPECT_GE(size, bytes * 3 / 4);
  }
}

// No answer occurs so often that a model could score well by giving it always.
TEST(ListOpsTest, AnswersAreEven) {
  for (const size_t bytes : {128u, 1000u}) {
    std::map<std::string, int> answers;
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      ++answers[Draw(ListOps(), bytes, seed).questions[0].answer];
    }
    for (const auto& [answer, count] : answers) EXPECT_LE(count, 400) << answer << " at " << bytes;
    EXPECT_EQ(answers.size(), 10u);
  }
}

TEST(RecallTest, EveryKeyStandsOnceWithItsValue) {
  Recall task;
  task.questions = 50;
  for (const size_t bytes : {14u, 95u, 9005u}) {
    const Sample sample = Draw(task, bytes, bytes);
    EXPECT_EQ(sample.context.size(), bytes - sample.questions[0].text.size());
    ASSERT_EQ(sample.questions.size(), 50u);
    for (const Question& question : sample.questions) {
      EXPECT_EQ(Occurrences("\n" + sample.context, "\n" + question.text), 1u);
      const std::string line = question.text + " " + question.answer + "\n";
      const size_t at = sample.context.find(line);
      ASSERT_NE(at, std::string::npos) << line;
      EXPECT_DOUBLE_EQ(question.depth,
                       static_cast<double>(at) / static_cast<double>(sample.context.size()));
    }
  }
}

TEST(RecallTest, KeysGrowWhereThreeLettersAreTooFew) {
  const Sample sample = Draw(Recall(), 1 << 20, 1);
  const std::string& key = sample.questions[0].text;
  EXPECT_EQ(key.size(), 6u);
  EXPECT_EQ(Occurrences("\n" + sample.context, "\n" + key), 1u);
  EXPECT_NEAR(static_cast<double>(sample.context.size()), 1 << 20, 20);
}

TEST(IsAnswerTest, StandsFirstAndAlone) {
  EXPECT_TRUE(IsAnswer("17", "17"));
  EXPECT_TRUE(IsAnswer(" \n17\nabc", "17"));
  EXPECT_TRUE(IsAnswer("17. Remember", "17"));
  EXPECT_FALSE(IsAnswer("", "17"));
  EXPECT_FALSE(IsAnswer("  ", "17"));
  EXPECT_FALSE(IsAnswer("171", "17"));
  EXPECT_FALSE(IsAnswer("1", "17"));
  EXPECT_FALSE(IsAnswer("is 17", "17"));
  EXPECT_FALSE(IsAnswer("17a", "17"));
}

}  // namespace
}  // namespace longstream::client
