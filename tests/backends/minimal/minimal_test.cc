// The minimal backend as a test double: its text, and the options that make it slow or fail. The
// conformance kit shows that it keeps the ABI.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/conformance/model.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/test_host.h"

namespace longstream {
namespace {

using conformance::Decode;
using conformance::Entry;
using conformance::Greedy;
using conformance::Model;
using conformance::OpenOptions;
using conformance::Output;
using conformance::Prefill;
using conformance::Sequence;

class MinimalTest : public testing::Test {
 protected:
  OpenOptions Options(const std::string& json) const {
    OpenOptions options;
    options.options = json;
    return options;
  }
  ls_code Open(const std::string& json, std::string* error) const {
    ls_model* model = nullptr;
    const ls_code code =
        conformance::TryOpen(backend_, directory_, Options(json), host_, &model, error);
    if (code == LS_OK) backend_.model_close(model);
    return code;
  }

  // The text after "once ", drawn with temperature 1 (greedily if the seed is 0).
  std::string Generate(const std::string& json, uint64_t seed, int length) const {
    Model model(backend_, directory_, Options(json), host_);
    Sequence sequence = model.Create();
    sequence.Reserve(static_cast<uint64_t>(length) + 5);
    ls_sampling sampling = Greedy();
    sampling.seed = seed;
    sampling.temperature = seed == 0 ? 0.0f : 1.0f;
    Entry entry = Prefill(sequence, {'o', 'n', 'c', 'e', ' '});
    std::string text;
    for (int i = 0; i < length; ++i) {
      entry.sampling = &sampling;
      const int32_t token = model.Step(entry).sampled;
      text.push_back(static_cast<char>(token));
      entry = Decode(sequence, token);
    }
    return text;
  }

  const conformance::PluginFile plugin_{MINIMAL_PLUGIN};
  const ls_backend& backend_ = *plugin_.backend();
  const conformance::TestHost host_{2};
  const std::string directory_ = LONGSTREAM_SOURCE_DIR "/tests/conformance/models/minimal";
};

TEST_F(MinimalTest, WritesLowerCaseWords) {
  for (const uint64_t seed : {0u, 1u}) {
    const std::string text = Generate("{}", seed, 400);
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz \n"), std::string::npos) << text;
    EXPECT_NE(text.find(' '), std::string::npos);
    EXPECT_NE(text.find('\n'), std::string::npos);
  }
  EXPECT_EQ(Generate("{}", 7, 100), Generate("{}", 7, 100));
  EXPECT_NE(Generate("{}", 7, 100), Generate("{}", 8, 100));
}

// Counts the characters of each length. Returns -1 if the text is not UTF-8; an unfinished
// character at its end is allowed.
int CountCharacters(const std::string& text, int counts[5]) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (length == 0) return -1;
    if (i + length > text.size()) return 0;
    for (size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xc0) != 0x80) return -1;
    }
    ++counts[length];
    i += length;
  }
  return 0;
}

TEST_F(MinimalTest, WritesCharactersOfEveryLength) {
  int counts[5] = {};
  ASSERT_EQ(CountCharacters(Generate("{\"utf8\": true}", 1, 600), counts), 0);
  for (const int length : {1, 2, 3, 4}) EXPECT_GT(counts[length], 5) << length;
}

TEST_F(MinimalTest, FailsWhereItIsTold) {
  Model model(backend_, directory_, Options("{\"fail_at_position\": 6}"), host_);
  Sequence sequence = model.Create();
  sequence.Reserve(10);
  sequence.Checkpoint();
  EXPECT_EQ(model.Step(Prefill(sequence, {1, 2, 3, 4, 5, 6})).code, LS_OK);
  const Output output = model.Step(std::vector<Entry>{Decode(sequence, 7)}).front();
  EXPECT_EQ(output.code, LS_INTERNAL);
  EXPECT_EQ(output.message, "NaN logits at position 6");
  EXPECT_EQ(sequence.position(), 6u);
  EXPECT_EQ(sequence.Truncate(5), 0u);
  EXPECT_EQ(model.Step(Prefill(sequence, {1, 2, 3})).code, LS_OK);
}

TEST_F(MinimalTest, IsAsSlowAsItIsTold) {
  Model model(backend_, directory_, Options("{\"step_delay_us\": 20000}"), host_);
  Sequence sequence = model.Create();
  sequence.Reserve(10);
  const auto start = std::chrono::steady_clock::now();
  model.Step(Prefill(sequence, {1, 2, 3}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST_F(MinimalTest, ContextLimit) {
  EXPECT_EQ(Model(backend_, directory_, Options("{}"), host_).info().context_limit, 4096u);
  Model model(backend_, directory_, Options("{\"context_limit\": 8}"), host_);
  EXPECT_EQ(model.info().context_limit, 8u);
  Sequence sequence = model.Create();
  EXPECT_EQ(sequence.TryReserve(8), LS_OK);
  EXPECT_EQ(sequence.TryReserve(9), LS_INVALID_ARGUMENT);
}

TEST_F(MinimalTest, RefusesUnknownKeysByName) {
  const std::string directory = testing::TempDir() + "/minimal_keys";
  std::filesystem::create_directories(directory);
  const auto open = [&](const std::string& config, std::string* error) {
    std::ofstream(directory + "/config.json") << config;
    ls_model* model = nullptr;
    const ls_code code =
        conformance::TryOpen(backend_, directory, Options("{}"), host_, &model, error);
    if (code == LS_OK) backend_.model_close(model);
    return code;
  };
  std::string error;
  EXPECT_EQ(open(R"({"model_type": "minimal", "sed": 3})", &error), LS_UNIMPLEMENTED);
  EXPECT_EQ(error, "config.json: sed = 3 is not known");
  EXPECT_EQ(open(R"({"model_type": "minimal", "sed": NaN})", &error), LS_UNIMPLEMENTED);
  EXPECT_EQ(error, "config.json: sed = \"NaN\" is not known");
  EXPECT_EQ(open(R"({"model_type": "minimal", "seed": 3, "context_limit": 64, "eos_token_id": 7,
                     "architectures": ["Minimal"]})",
                 &error),
            LS_OK)
      << error;
  std::filesystem::remove(directory + "/config.json");
  ASSERT_EQ(mkfifo((directory + "/config.json").c_str(), 0600), 0);
  ls_model* model = nullptr;
  EXPECT_EQ(conformance::TryOpen(backend_, directory, Options("{}"), host_, &model, &error),
            LS_NOT_FOUND);
  EXPECT_EQ(error, directory + "/config.json is not a file");
  std::filesystem::remove_all(directory);
}

TEST_F(MinimalTest, RefusesBadOptionsByName) {
  std::string error;
  EXPECT_EQ(Open("{\"context_limit\": 4097}", &error), LS_INVALID_ARGUMENT);
  EXPECT_EQ(error, "context_limit: expected 1 ... 4096");
  EXPECT_EQ(Open("{\"utf8\": 1}", &error), LS_INVALID_ARGUMENT);
  EXPECT_EQ(error, "utf8: expected true or false, found 1");
  EXPECT_EQ(Open("{\"step_delay_us\": -1}", &error), LS_INVALID_ARGUMENT);
  EXPECT_EQ(error, "step_delay_us: expected a whole number, found -1");
  EXPECT_EQ(Open("{\"step_delay\": 1}", &error), LS_INVALID_ARGUMENT);
  EXPECT_EQ(error, "unknown in options: {\"step_delay\":1}");
}

}  // namespace
}  // namespace longstream
