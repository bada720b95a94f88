// Comparison with the libraries `tokenizers` and `sentencepiece`. tools/golden/tokenizer_golden.py
// recorded their ids and texts in tests/golden/tokenizer. LONGSTREAM_TOKENIZER_GOLDEN names another
// directory of the same layout, for more cases than the repository keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/stream/stream_decoder.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

constexpr int kVocabSize = 1 << 20;  // more than any tokenizer has

std::filesystem::path GoldenDirectory() {
  const char* directory = std::getenv("LONGSTREAM_TOKENIZER_GOLDEN");
  return directory != nullptr ? directory : LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer";
}

// The text of the ids, which go through a stream decoder one by one.
std::string DecodeByToken(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                          DecodeOptions options) {
  StreamDecoder decoder(tokenizer, StopMatcher(), {.decode = options});
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id).text;
  return text + decoder.Finish().text;
}

// The names of the directories that hold cases.
std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDirectory())) {
    if (std::filesystem::exists(entry.path() / "cases.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ParityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::filesystem::path directory = GoldenDirectory() / GetParam();
    std::ifstream file(directory / "cases.json");
    ASSERT_TRUE(file.is_open()) << directory;
    cases_ = nlohmann::json::parse(file);
    auto tokenizer = LoadTokenizer(directory, kVocabSize);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  std::vector<int32_t> Encode(const std::string& text, bool parse_special) const {
    const auto ids = tokenizer_->Encode(text, {.parse_special = parse_special});
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? *ids : std::vector<int32_t>();
  }

  nlohmann::json cases_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(ParityTest, EncodesTheSameIds) {
  const nlohmann::json& cases = cases_["encode"];
  ASSERT_GT(cases.size(), 40u);
  for (const nlohmann::json& test_case : cases) {
    const auto text = test_case[0].get<std::string>();
    const auto ids = test_case[1].get<std::vector<int32_t>>();
    const auto plain_ids = test_case.back().get<std::vector<int32_t>>();
    EXPECT_EQ(Encode(text, true), ids) << test_case[0];
    EXPECT_EQ(Encode(text, false), plain_ids) << test_case[0];
  }
}

TEST_P(ParityTest, DecodesTheSameText) {
  const nlohmann::json& cases = cases_["decode"];
  ASSERT_GT(cases.size(), 20u);
  for (const nlohmann::json& test_case : cases) {
    const auto ids = test_case[0].get<std::vector<int32_t>>();
    const auto text = test_case[1].get<std::string>();
    const auto plain_text = test_case[2].get<std::string>();
    EXPECT_EQ(tokenizer_->Decode(ids), text) << test_case[0];
    EXPECT_EQ(tokenizer_->Decode(ids, {.skip_special = true}), plain_text) << test_case[0];
    EXPECT_EQ(DecodeByToken(*tokenizer_, ids, {}), text) << test_case[0];
    EXPECT_EQ(DecodeByToken(*tokenizer_, ids, {.skip_special = true}), plain_text) << test_case[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ParityTest, testing::ValuesIn(Families()),
                         [](const auto& family) { return family.param; });

constexpr char kFamilies[] =
    "afmoe bloom cohere2 exaone4 flags gemma gpt2 gpt_oss llama2 llama3 minicpm5 mistral "
    "mpt nfd nfkc nfkd olmo3 phi3 qwen3 splits spm_gemma spm_llama spm_mistral spm_unigram "
    "spm_unigram_bytes spm_unigram_ties tekken unfused unigram unigram_bytes unknown";

TEST(ParityData, HasTheFamilies) {
  const std::vector<std::string> expected = absl::StrSplit(kFamilies, ' ');
  EXPECT_THAT(Families(), testing::IsSupersetOf(expected));
}

}  // namespace
}  // namespace longstream
