// Tokenizers in GGUF files (tools/golden/gguf_files/gguf_tokenizers.py): their ids and texts are
// those of the tokenizers that were converted, which parity_test.cc reads from their own files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

constexpr int kLargestVocabulary = 1 << 20;
const std::filesystem::path kGoldenRoot = LONGSTREAM_SOURCE_DIR "/tests/golden";

std::vector<std::string> GgufNames() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(kGoldenRoot / "gguf" / "tokenizers")) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GgufParityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::filesystem::path cases = kGoldenRoot / "gguf" / "tokenizers" / (GetParam() + ".json");
    if (!std::filesystem::exists(cases)) {
      cases = kGoldenRoot / "tokenizer" / GetParam() / "cases.json";
    }
    std::ifstream file(cases);
    ASSERT_TRUE(file.is_open());
    cases_ = nlohmann::json::parse(file);
    auto tokenizer = LoadTokenizer(kGoldenRoot / "gguf" / "tokenizers" / (GetParam() + ".gguf"),
                                   kLargestVocabulary);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  nlohmann::json cases_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(GgufParityTest, EncodesTheSameIds) {
  ASSERT_GT(cases_["encode"].size(), 40u);
  for (const nlohmann::json& test_case : cases_["encode"]) {
    const auto text = test_case[0].get<std::string>();
    // The conversion writes a space for the mark in user-defined symbols, so the mark itself does
    // not match them any more.
    if (GetParam() == "spm_gemma" && text.find("\u2581") != std::string::npos) continue;
    EXPECT_EQ(tokenizer_->Encode(text, {.parse_special = true}).value(),
              test_case[1].get<std::vector<int32_t>>())
        << test_case[0];
    EXPECT_EQ(tokenizer_->Encode(text, {.parse_special = false}).value(),
              test_case.back().get<std::vector<int32_t>>())
        << test_case[0];
  }
}

TEST_P(GgufParityTest, DecodesTheSameText) {
  ASSERT_GT(cases_["decode"].size(), 20u);
  for (const nlohmann::json& test_case : cases_["decode"]) {
    const auto ids = test_case[0].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->Decode(ids), test_case[1].get<std::string>()) << test_case[0];
    EXPECT_EQ(tokenizer_->Decode(ids, {.skip_special = true}), test_case[2].get<std::string>())
        << test_case[0];
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufParityTest, testing::ValuesIn(GgufNames()),
                         [](const auto& name) { return name.param; });

TEST(GgufParityData, IsThere) { EXPECT_GE(GgufNames().size(), 10u); }

}  // namespace
}  // namespace longstream
