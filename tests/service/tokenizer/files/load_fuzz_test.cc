// Damaged tokenizer files of every kind. Each must be refused with a sentence or give a tokenizer
// that works; none may end the process.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/tokenizer.h"
#include "tests/fuzz_trials.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using nlohmann::json;

std::string ReadGolden(const std::string& file) {
  std::ifstream stream(LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer/" + file, std::ios::binary);
  EXPECT_TRUE(stream.is_open()) << file;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Loads a directory with this file. If that succeeds, uses the tokenizer and returns true.
bool LoadAndUse(const std::string& name, const std::string& content) {
  const TemporaryDirectory directory;
  directory.Write(name, content);
  const auto tokenizer = LoadTokenizer(directory.path(), 4096);
  if (!tokenizer.ok()) {
    EXPECT_FALSE(tokenizer.status().message().empty());
    return false;
  }
  const auto ids = (*tokenizer)
                       ->Encode("def f(x): <s>e\u0301\u00bd 123  \n\U0001F680 \u2581<pad>",
                                {.parse_special = true});
  if (!ids.ok()) return true;
  const std::string text = (*tokenizer)->Decode(*ids);
  EXPECT_EQ(ValidUtf8Prefix(text), text.size());
  return true;
}

class LoadFuzzTest : public testing::TestWithParam<const char*> {
 protected:
  std::mt19937 random_{11};
};

// Returns a random value of the tree below `value`.
json* Somewhere(json* value, std::mt19937* random) {
  while (value->is_structured() && !value->empty() && (*random)() % 5 != 0) {
    auto member = value->begin();
    // The members of a vocabulary are alike, so the first 20 are enough.
    std::advance(member,
                 static_cast<std::ptrdiff_t>((*random)() % std::min<size_t>(value->size(), 20)));
    value = &*member;
  }
  return value;
}

using JsonFuzzTest = LoadFuzzTest;

TEST_P(JsonFuzzTest, SurvivesChangedValues) {
  const json golden = json::parse(ReadGolden(std::string(GetParam()) + "/tokenizer.json"));
  const json values = json::parse(R"([
      null, true, -1, 0, 7, 1e300, 4095, 4096, 18446744073709551615, "", "a", " ", "<0x41>", "first",
      "Isolated", "BPE", "Unigram", "ByteLevel", "Metaspace", "Precompiled", "Replace", "Strip", "(",
      "a*", "\\p{L}+", "\u0000", [], {}, ["a", "b"], {"String": "a"}, {"Regex": "[a-"}])");
  int loaded = 0;
  FuzzTrials trials(300);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    json damaged = golden;
    for (size_t changes = 1 + random_() % 3; changes > 0; --changes) {
      *Somewhere(&damaged, &random_) = values[random_() % values.size()];
    }
    loaded += LoadAndUse("tokenizer.json", damaged.dump()) ? 1 : 0;
  }
  EXPECT_GT(loaded, 0) << "no damaged file loaded, although some changes are harmless";
  EXPECT_LT(loaded, trials.count());
}

INSTANTIATE_TEST_SUITE_P(Families, JsonFuzzTest,
                         testing::Values("llama3", "llama2", "mistral", "unigram", "unigram_bytes"),
                         [](const auto& family) { return std::string(family.param); });

using ModelFuzzTest = LoadFuzzTest;

TEST_P(ModelFuzzTest, SurvivesChangedBytes) {
  const std::string golden = ReadGolden(std::string(GetParam()) + "/tokenizer.model");
  int loaded = 0;
  FuzzTrials trials(500);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string damaged = golden;
    for (size_t changes = random_() % 4; changes > 0; --changes) {
      damaged[random_() % damaged.size()] = static_cast<char>(random_());
    }
    if (random_() % 4 == 0) damaged.resize(random_() % damaged.size());
    // The specifications are at the end of the file, and a map of characters fills most of them.
    // Half of the trials damage one of the last 600 bytes.
    if (random_() % 2 == 0) {
      damaged[damaged.size() - 1 - random_() % std::min<size_t>(damaged.size(), 600)] ^= 0x11;
    }
    loaded += LoadAndUse("tokenizer.model", damaged) ? 1 : 0;
  }
  EXPECT_GT(loaded, 0) << "no damaged file loaded, although some changes are harmless";
  EXPECT_LT(loaded, trials.count());
}

INSTANTIATE_TEST_SUITE_P(Families, ModelFuzzTest,
                         testing::Values("spm_llama", "spm_gemma", "spm_unigram"),
                         [](const auto& family) { return std::string(family.param); });

using GgufFuzzTest = LoadFuzzTest;

TEST_P(GgufFuzzTest, SurvivesChangedBytes) {
  const std::string golden = ReadGolden("../gguf/tokenizers/" + std::string(GetParam()) + ".gguf");
  int loaded = 0;
  FuzzTrials trials(500);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string damaged = golden;
    for (size_t changes = random_() % 6; changes > 0; --changes) {
      damaged[random_() % damaged.size()] = static_cast<char>(random_());
    }
    if (random_() % 8 == 0) damaged.resize(random_() % damaged.size());
    loaded += LoadAndUse("m.gguf", damaged) ? 1 : 0;
  }
  EXPECT_GT(loaded, 0) << "no damaged file loaded, although some changes are harmless";
  EXPECT_LT(loaded, trials.count());
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GgufFuzzTest, testing::Values("qwen3", "tekken", "spm_llama"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace longstream
