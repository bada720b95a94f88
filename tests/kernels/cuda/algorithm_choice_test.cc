// Tests how an algorithm is chosen from a library that offers several, and how a file keeps
// choices.
#include "kernels/cuda/cublaslt/algorithm_choice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/cublaslt/algorithm_file.h"

namespace longstream::cuda {
namespace {

constexpr ProductShape kShape = {.n = 5120, .k = 1024, .out_stride = 5120, .out_alignment = 16};

Algorithm Number(uint64_t id) { return {id, ~id, 0, 0, 0, 0, 0, id << 32}; }

// A library that offers algorithms with given properties.
class FakeLibrary final : public AlgorithmSource {
 public:
  struct Offer {
    uint64_t id;
    double milliseconds_512;
    double milliseconds_64;
    bool splits = false;
    int64_t fails_at = 0;     // the number of rows at which it fails; 0: none
    int64_t proposed_at = 0;  // the number of rows at which the library proposes it; 0: all
  };

  explicit FakeLibrary(std::vector<Offer> offers) : offers_(std::move(offers)) {}

  std::vector<Algorithm> Propose(const ProductShape& shape, int64_t rows, size_t most) override {
    EXPECT_EQ(shape, kShape);
    std::vector<Algorithm> algorithms;
    for (const Offer& offer : offers_) {
      if (offer.proposed_at != 0 && offer.proposed_at != rows) continue;
      if (algorithms.size() < most) algorithms.push_back(Number(offer.id));
    }
    return algorithms;
  }
  bool SumsInOneSequence(const Algorithm& algorithm) override { return !Of(algorithm).splits; }
  bool Serves(const ProductShape&, int64_t rows, const Algorithm& algorithm) override {
    return Of(algorithm).fails_at != rows;
  }
  double Seconds(const ProductShape&, int64_t rows, const Algorithm& algorithm) override {
    ++num_timings_;
    const Offer& offer = Of(algorithm);
    EXPECT_FALSE(offer.splits) << "timed though it splits: " << offer.id;
    return 1e-3 * (rows == 512 ? offer.milliseconds_512 : offer.milliseconds_64);
  }

  int num_timings() const { return num_timings_; }

 private:
  const Offer& Of(const Algorithm& algorithm) const {
    const auto found = std::find_if(offers_.begin(), offers_.end(), [&](const Offer& offer) {
      return Number(offer.id) == algorithm;
    });
    // An algorithm that the library did not offer splits its sums, so it must never be chosen.
    static constexpr Offer kUnknown = {
        .id = 0, .milliseconds_512 = 0, .milliseconds_64 = 0, .splits = true};
    return found == offers_.end() ? kUnknown : *found;
  }

  const std::vector<Offer> offers_;
  int num_timings_ = 0;
};

TEST(AlgorithmChoiceTest, TakesTheFastest) {
  FakeLibrary library({{1, 0.30, 0.05}, {2, 0.20, 0.05}, {3, 0.25, 0.05}});
  const auto choice = ChooseAlgorithm(library, kShape);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->algorithm, Number(2));
  EXPECT_TRUE(choice->is_timed);
}

TEST(AlgorithmChoiceTest, SaysWhyNoneServes) {
  FakeLibrary library({{.id = 1, .milliseconds_512 = 1, .milliseconds_64 = 1, .splits = true},
                       {.id = 2, .milliseconds_512 = 1, .milliseconds_64 = 1, .fails_at = 7},
                       {.id = 3,
                        .milliseconds_512 = 1,
                        .milliseconds_64 = 1,
                        .fails_at = 257,
                        .proposed_at = 512}});
  EXPECT_FALSE(ChooseAlgorithm(library, kShape).has_value());
  EXPECT_EQ(WhyNoneServes(library, kShape),
            "of 5 proposed algorithms 2 divide their sums, 2 fail at 7 rows, 1 fail at 257 rows");
}

TEST(AlgorithmChoiceTest, CountsLongAndShortPieces) {
  FakeLibrary library({{1, 0.20, 0.15}, {2, 0.22, 0.05}});
  EXPECT_EQ(ChooseAlgorithm(library, kShape)->algorithm, Number(2));
}

TEST(AlgorithmChoiceTest, LeavesOutWhatSplitsSums) {
  FakeLibrary library({{1, 0.01, 0.01, /*splits=*/true}, {2, 0.30, 0.05}, {3, 0.20, 0.05}});
  EXPECT_EQ(ChooseAlgorithm(library, kShape)->algorithm, Number(3));
}

TEST(AlgorithmChoiceTest, LeavesOutWhatFailsAtSomeNumberOfRows) {
  for (const int64_t rows : kServedRows) {
    FakeLibrary library({{1, 0.01, 0.01, false, rows}, {2, 0.30, 0.05}});
    EXPECT_EQ(ChooseAlgorithm(library, kShape)->algorithm, Number(2)) << rows << " rows";
  }
}

TEST(AlgorithmChoiceTest, KnowsProposalsForShortPiecesToo) {
  FakeLibrary library({{1, 0.3, 0.3, false, 0, 512}, {2, 0.1, 0.1, false, 0, 64}});
  EXPECT_EQ(ChooseAlgorithm(library, kShape)->algorithm, Number(2));
}

TEST(AlgorithmChoiceTest, OfEqualsTheFirstAndEachTimedOnce) {
  FakeLibrary library({{7, 0.2, 0.1}, {5, 0.2, 0.1}});
  EXPECT_EQ(ChooseAlgorithm(library, kShape)->algorithm, Number(7));
  EXPECT_EQ(library.num_timings(), 4);  // two algorithms, each timed at two numbers of rows
}

TEST(AlgorithmChoiceTest, WithoutTimesTheFirstThatServes) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  FakeLibrary library({{1, 0.1, 0.1, true}, {2, kNever, kNever}, {3, kNever, kNever}});
  const auto choice = ChooseAlgorithm(library, kShape);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->algorithm, Number(2));
  EXPECT_FALSE(choice->is_timed);
}

TEST(AlgorithmChoiceTest, NoneServes) {
  FakeLibrary split({{1, 0.1, 0.1, true}});
  EXPECT_FALSE(ChooseAlgorithm(split, kShape).has_value());
  FakeLibrary empty({});
  EXPECT_FALSE(ChooseAlgorithm(empty, kShape).has_value());
}

class AlgorithmFileTest : public testing::Test {
 protected:
  AlgorithmFileTest()
      : directory_(testing::TempDir() + "/algorithms." + std::to_string(getpid())),
        path_(directory_ + "/below/choices") {}
  ~AlgorithmFileTest() override { std::filesystem::remove_all(directory_); }

  AlgorithmFile Open() {
    return {path_, [this](const std::string& sentence) { warnings_ += sentence + "\n"; }};
  }
  std::string Text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void Overwrite(const std::string& text) const { std::ofstream(path_) << text; }
  static std::string Key(int64_t n, const std::string& device = "NVIDIA H200") {
    return ChoiceKey(device, "9.0", "130100", {n, 64, n, 16});
  }

  const std::string directory_;
  const std::string path_;
  std::string warnings_;
};

TEST_F(AlgorithmFileTest, RoundTrip) {
  AlgorithmFile file = Open();
  EXPECT_EQ(file.Find(Key(1)), std::nullopt);
  EXPECT_EQ(file.Keep(Key(1), Number(11)), Number(11));
  EXPECT_EQ(file.Keep(Key(2), Number(12)), Number(12));
  AlgorithmFile next = Open();
  EXPECT_EQ(next.Find(Key(1)), Number(11));
  EXPECT_EQ(next.Find(Key(2)), Number(12));
  EXPECT_EQ(next.Find(Key(1, "NVIDIA A100")), std::nullopt);
  EXPECT_EQ(warnings_, "");
}

TEST_F(AlgorithmFileTest, EveryPartOfTheKeyCounts) {
  const ProductShape shape = {1, 2, 3, 4};
  const std::string keys[] = {
      ChoiceKey("a", "9.0", "1", shape),        ChoiceKey("b", "9.0", "1", shape),
      ChoiceKey("a", "8.0", "1", shape),        ChoiceKey("a", "9.0", "2", shape),
      ChoiceKey("a", "9.0", "1", {9, 2, 3, 4}), ChoiceKey("a", "9.0", "1", {1, 9, 3, 4}),
      ChoiceKey("a", "9.0", "1", {1, 2, 9, 4}), ChoiceKey("a", "9.0", "1", {1, 2, 3, 9})};
  for (const std::string& key : keys) {
    EXPECT_EQ(std::count(std::begin(keys), std::end(keys), key), 1) << key;
  }
  EXPECT_EQ(ChoiceKey("a\tb\nc", "9.0", "1", shape).find_first_of("\t\n"), std::string::npos);
}

TEST_F(AlgorithmFileTest, TheFirstWriterWins) {
  AlgorithmFile one = Open();
  AlgorithmFile other = Open();
  EXPECT_EQ(one.Find(Key(1)), std::nullopt);
  EXPECT_EQ(other.Find(Key(1)), std::nullopt);
  EXPECT_EQ(one.Keep(Key(1), Number(3)), Number(3));
  EXPECT_EQ(other.Keep(Key(1), Number(4)), Number(3));
  EXPECT_EQ(Open().Find(Key(1)), Number(3));
}

TEST_F(AlgorithmFileTest, DamagedLinesAreLeftOutAndWrittenAnew) {
  AlgorithmFile file = Open();
  file.Keep(Key(1), Number(1));
  file.Keep(Key(2), Number(2));
  const std::string sound = Text();
  for (size_t i = sound.find('\n') + 1; i < sound.size(); i += 7) {
    std::string damaged = sound;
    damaged[i] = damaged[i] == 'x' ? 'y' : 'x';
    Overwrite(damaged);
    warnings_.clear();
    EXPECT_NE(file.Find(Key(1)).has_value() && file.Find(Key(2)).has_value(), true) << i;
    EXPECT_NE(warnings_.find("damaged"), std::string::npos) << i;
    EXPECT_EQ(file.Keep(Key(1), Number(1)), Number(1));
    EXPECT_EQ(file.Keep(Key(2), Number(2)), Number(2));
    EXPECT_EQ(Text(), sound) << i;
  }
  Overwrite(sound.substr(0, sound.size() - 9));  // a file that a full disk has cut off
  EXPECT_EQ(file.Find(Key(1)), Number(1));
  EXPECT_EQ(file.Find(Key(2)), std::nullopt);
}

TEST_F(AlgorithmFileTest, AForeignFileStaysAsItIs) {
  Open().Keep(Key(1), Number(1));
  Overwrite("a letter\nto somebody\n");
  AlgorithmFile file = Open();
  EXPECT_EQ(file.Find(Key(1)), std::nullopt);
  EXPECT_NE(warnings_.find("not a file of"), std::string::npos) << warnings_;
  EXPECT_EQ(file.Keep(Key(1), Number(5)), Number(5));
  EXPECT_EQ(Text(), "a letter\nto somebody\n");
}

TEST_F(AlgorithmFileTest, GoesOnWhereNothingCanBeWritten) {
  AlgorithmFile nowhere("/proc/no/such/file",
                        [this](const std::string& sentence) { warnings_ += sentence; });
  EXPECT_EQ(nowhere.Keep(Key(1), Number(1)), Number(1));
  EXPECT_NE(warnings_.find("cannot be written"), std::string::npos) << warnings_;
  AlgorithmFile off("", [](const std::string& sentence) { ADD_FAILURE() << sentence; });
  EXPECT_EQ(off.Keep(Key(1), Number(1)), Number(1));
  EXPECT_EQ(off.Find(Key(1)), std::nullopt);
}

TEST_F(AlgorithmFileTest, NoTemporaryFilesRemain) {
  Open().Keep(Key(1), Number(1));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/below")) {
    EXPECT_TRUE(entry.path() == path_ || entry.path() == path_ + ".lock") << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 2u);
}

TEST_F(AlgorithmFileTest, TheNextStartChoosesTheSameThoughTimesDiffer) {
  const std::string key = ChoiceKey("NVIDIA H200", "9.0", "130100", kShape);
  FakeLibrary first({{1, 0.2, 0.1}, {2, 0.3, 0.1}});
  AlgorithmFile file = Open();
  EXPECT_EQ(StoredOrChosen(file, key, first, kShape), Number(1));
  FakeLibrary second({{1, 0.3, 0.1}, {2, 0.2, 0.1}});
  AlgorithmFile next = Open();
  EXPECT_EQ(StoredOrChosen(next, key, second, kShape), Number(1));
  EXPECT_EQ(second.num_timings(), 0);
}

TEST_F(AlgorithmFileTest, AStoredAlgorithmThatServesNoMoreIsReplaced) {
  const std::string key = ChoiceKey("NVIDIA H200", "9.0", "130100", kShape);
  AlgorithmFile file = Open();
  file.Keep(key, Number(1));
  FakeLibrary library({{1, 0.1, 0.1, /*splits=*/true}, {2, 0.3, 0.1}});
  EXPECT_EQ(StoredOrChosen(file, key, library, kShape), Number(2));
  EXPECT_EQ(file.Find(key), Number(2));
}

TEST_F(AlgorithmFileTest, WhatCannotBeTimedIsNotStored) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  FakeLibrary library({{1, kNever, kNever}});
  AlgorithmFile file = Open();
  EXPECT_EQ(StoredOrChosen(file, Key(1), library, kShape), Number(1));
  EXPECT_EQ(file.Find(Key(1)), std::nullopt);
  EXPECT_NE(warnings_.find("could be timed"), std::string::npos) << warnings_;
}

TEST(DefaultAlgorithmFileTest, VariablesInTheirOrder) {
  const auto set = [](const char* name, const char* value) {
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  };
  const auto file = [&](const char* own, const char* cache, const char* home) {
    set("LONGSTREAM_CUDA_ALGORITHMS", own);
    set("XDG_CACHE_HOME", cache);
    set("HOME", home);
    return DefaultAlgorithmFile();
  };
  EXPECT_EQ(file("/own", "/cache", "/home"), "/own");
  EXPECT_EQ(file("", "/cache", "/home"), "");
  EXPECT_EQ(file(nullptr, "/cache", "/home"), "/cache/longstream/cuda-algorithms");
  EXPECT_EQ(file(nullptr, "", "/home"), "/home/.cache/longstream/cuda-algorithms");
  EXPECT_EQ(file(nullptr, nullptr, nullptr), "");
}

}  // namespace
}  // namespace longstream::cuda
