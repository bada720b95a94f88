// The choice of a plugin for a checkpoint, and the error if no plugin serves it.
#include "service/models/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "service/models/model_check.h"
#include "service/models/model_directories.h"
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

class ServedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto found = LoadPluginDirectory(LONGSTREAM_BINARY_DIR "/plugins");
    ASSERT_TRUE(found.ok()) << found.status();
    for (const auto& plugin : found->plugins) {
      if (plugin->device() == "cpu") plugins_.push_back(plugin);
    }
    source_.name = "m";
    source_.directory = directory_.string();
  }

  absl::StatusOr<std::shared_ptr<ServedModel>> Load() {
    return ServedModel::Load(source_, plugins_, &host_);
  }
  std::string Error() {
    const absl::Status status = Load().status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  const TemporaryDirectory directory_;
  const Host host_{Executor{}, nullptr};
  std::vector<std::shared_ptr<const Plugin>> plugins_;
  ModelSource source_;
};

TEST_F(ServedModelTest, TheConfigChoosesThePlugin) {
  directory_.Write("config.json", R"({"model_type": "minimal", "eos_token_id": 7})");
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->name(), "m");
  EXPECT_EQ((*model)->backend().plugin().name(), "minimal");
  EXPECT_STREQ((*model)->backend().info().architecture, "minimal");
  EXPECT_EQ((*model)->tokenizer().kind(), "byte");
  EXPECT_EQ((*model)->defaults().end_token_ids, std::vector<int32_t>{7});
}

// The tokenizer of plain bytes needs 256 ids. Python writes NaN, which must not hide the other
// keys.
TEST_F(ServedModelTest, ACheckReadsTheVocabularyBesideNaN) {
  directory_.Write("config.json",
                   R"({"model_type": "minimal", "vocab_size": 256, "initializer_range": NaN})");
  EXPECT_TRUE(CheckModel(source_, plugins_).ok());
  directory_.Write("config.json",
                   R"({"model_type": "minimal", "vocab_size": 255, "initializer_range": NaN})");
  EXPECT_TRUE(absl::IsInvalidArgument(CheckModel(source_, plugins_).status()));
}

TEST_F(ServedModelTest, ACheckLooksAtNoFileOutsideTheDirectory) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  for (const char* name : {"/etc/passwd", "../../etc/passwd", "sub/file", ".."}) {
    directory_.Write("model.safetensors.index.json",
                     std::string(R"({"weight_map": {"a": ")") + name + "\"}}");
    const absl::Status status = CheckModel(source_, plugins_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("files of this directory"), absl::string_view::npos) << status;
  }
}

TEST_F(ServedModelTest, EachDemoCheckpointGetsItsBackend) {
  for (const std::string name : {"dense", "hwfa2", "hypenet"}) {
    source_.directory = LONGSTREAM_SOURCE_DIR "/models/demo/" + name;
    const auto model = Load();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->backend().plugin().name(), name);
    EXPECT_EQ((*model)->defaults().temperature, 1.0f) << "greedy answers would be blanks";
  }
}

// The file's path and the path of its directory mean the same model.
TEST_F(ServedModelTest, AGgufFileIsAWholeModel) {
  const std::string directory = LONGSTREAM_SOURCE_DIR "/tests/golden/gguf/served";
  for (const std::string& path : {directory + "/served.gguf", directory}) {
    source_.directory = path;
    const auto model = Load();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->backend().plugin().name(), "dense");
    EXPECT_STREQ((*model)->backend().info().architecture, "qwen2");
    EXPECT_EQ((*model)->tokenizer().kind(), "bpe");
    EXPECT_EQ((*model)->defaults().temperature, 0.7f);
    EXPECT_FALSE((*model)->defaults().end_token_ids.empty());
    ASSERT_TRUE((*model)->chat().ok()) << (*model)->chat().status();
    EXPECT_EQ((*model)->chat()->by_name.size(), 2u);
    const absl::StatusOr<ModelCheck> check = CheckModel(source_, plugins_);
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->weights, std::vector<std::string>{"served.gguf"});
    EXPECT_EQ(check->weight_bytes, std::filesystem::file_size(directory + "/served.gguf"));
    EXPECT_TRUE(check->chat.ok()) << check->chat;
  }
}

TEST_F(ServedModelTest, ErrorsOfAGgufFileNameFileAndKey) {
  source_.directory = directory_.Write("m.gguf", "GGUX");
  EXPECT_THAT(Error(), testing::HasSubstr("m.gguf: is no GGUF file"));
  source_.directory =
      directory_.Write("m.gguf", GgufBytes().Text("general.architecture", "mamba").Bytes());
  EXPECT_THAT(Error(), testing::HasSubstr("m.gguf: general.architecture must be one of llama"));
  directory_.Write("n.gguf", "");
  source_.directory = directory_.string();
  EXPECT_THAT(Error(), testing::HasSubstr("holds 2 GGUF models"));
  source_.directory = (directory_.path() / "none.gguf").string();
  EXPECT_THAT(Error(), testing::HasSubstr("none.gguf: there is no such file"));
}

// A plugin that reads config.json alone finds none, whatever the GGUF file has.
TEST_F(ServedModelTest, FaultsOfAGgufFileAreNotHiddenByTheOrderOfPlugins) {
  source_.directory = directory_.Write("m.gguf", "GGUX");
  for (int first = 0; first < static_cast<int>(plugins_.size()); ++first) {
    std::rotate(plugins_.begin(), plugins_.begin() + 1, plugins_.end());
    SCOPED_TRACE(plugins_.front()->name());
    EXPECT_THAT(Error(), testing::HasSubstr("m.gguf: is no GGUF file"));
  }
  std::erase_if(plugins_, [](const auto& plugin) { return plugin->name() != "minimal"; });
  EXPECT_THAT(Error(), testing::HasSubstr("m.gguf: is no GGUF file"));
}

TEST_F(ServedModelTest, WhereNoneServesItEveryPluginSaysWhy) {
  directory_.Write("config.json", R"({"model_type": "bert"})");
  const std::string error = Error();
  EXPECT_THAT(error, testing::StartsWith("model m: no plugin for device 'auto' serves " +
                                         directory_.string() + " (dense: "));
  for (const char* name : {"dense: ", "; hwfa2: ", "; hypenet: ", "; minimal: "}) {
    const size_t found = error.find(name);
    ASSERT_NE(found, std::string::npos) << error;
    const std::string reason = error.substr(found + 2, error.find(';', found + 2) - found - 2);
    EXPECT_THAT(reason, testing::HasSubstr("bert"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Load().status()));
}

TEST_F(ServedModelTest, ErrorsOfTheBudgetNameTheKeyOfTheConfiguration) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  source_.cache_bytes_budget = 1;
  EXPECT_THAT(Error(), testing::StartsWith("model m: cache_bytes: one sequence needs "));
}

TEST_F(ServedModelTest, ANamedBackendIsTakenWithoutAsking) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  source_.backend = "minimal";
  EXPECT_TRUE(Load().ok());
  directory_.Write("config.json", R"({"model_type": "bert"})");
  EXPECT_EQ(Error(), "model m: model_type: expected minimal, found bert");
}

TEST_F(ServedModelTest, ANamedBackendThatIsNotThere) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  source_.backend = "absent";
  EXPECT_EQ(Error(),
            "model m: backend: no plugin 'absent' for device 'auto'; available: dense, hwfa2, "
            "hypenet, minimal");
  EXPECT_TRUE(absl::IsNotFound(Load().status()));
}

// A call of an operator gives both names.
TEST_F(ServedModelTest, ErrorsRepeatTheBeginningOfNamesWithoutControlCharacters) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  const std::string name = "\x1b[2J\n" + std::string(1 << 20, 'x');
  const std::string found = "'\\x1b[2J\\n" + std::string(59, 'x') + "...'";
  source_.backend = name;
  EXPECT_THAT(Error(), testing::StartsWith("model m: backend: no plugin " + found + " for device"));
  source_.device = name;
  EXPECT_EQ(Error(), "model m: device: no plugin was found for " + found);
}

// The engine divides by the grid, so it must not be 0, and a grid must fit into a step.
TEST_F(ServedModelTest, APrefillGridMustFitIntoAStep) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  const auto load = [&](const std::string& name) {
    const auto plugin =
        Plugin::Load(LONGSTREAM_BINARY_DIR "/test_plugins/registry_" + name + ".so");
    EXPECT_TRUE(plugin.ok()) << plugin.status();
    plugins_ = {*plugin};
    return Load().status();
  };
  source_.max_batch_sequences = 64;
  source_.max_batch_tokens = 64 + 127;
  const absl::Status wide = load("wide_grid");
  EXPECT_TRUE(absl::IsFailedPrecondition(wide)) << wide;
  EXPECT_EQ(wide.message(),
            "model m: the backend's prefill_grid is 128, a step of 191 tokens has room for "
            "1 ... 127 beside 64 decode rows");
  EXPECT_TRUE(absl::IsFailedPrecondition(load("no_grid")));
  source_.max_batch_tokens = 64 + 128;
  EXPECT_TRUE(load("wide_grid").ok());
}

TEST_F(ServedModelTest, ADeviceThatNoPluginServes) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  source_.device = "cuda:0";
  EXPECT_EQ(Error(), "model m: device: no plugin was found for 'cuda:0'");
  source_.backend = "minimal";
  EXPECT_EQ(Error(), "model m: device: no plugin was found for 'cuda:0'");
  EXPECT_TRUE(absl::IsNotFound(Load().status()));
}

#ifdef LONGSTREAM_HAS_CUDA
// On a machine without a CUDA device the plugins load, and opening a model fails with the reason.
class CudaPluginTest : public ServedModelTest {
 protected:
  void SetUp() override {
    auto found = LoadPluginDirectory(LONGSTREAM_BINARY_DIR "/plugins");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->refused.empty());
    plugins_ = found->plugins;
    source_.name = "m";
    if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there may be a CUDA device";
  }
};

TEST_F(CudaPluginTest, WithoutADeviceOpeningSaysWhy) {
  for (const std::string name : {"dense", "hwfa2", "hypenet"}) {
    source_.directory = LONGSTREAM_SOURCE_DIR "/models/demo/" + name;
    for (const std::string device : {"cuda", "cuda:0", "cuda:7"}) {
      source_.device = device;
      EXPECT_THAT(Error(), testing::StartsWith("model m: no CUDA device: ")) << name;
      EXPECT_TRUE(absl::IsNotFound(Load().status()));
    }
    source_.device = "cuda:x";
    EXPECT_EQ(Error(), "model m: there is no device 'cuda:x' here, expected 'cuda' or 'cuda:N'");
  }
}

TEST_F(CudaPluginTest, AutoFallsBackToTheCpu) {
  for (const std::string name : {"dense", "hwfa2", "hypenet"}) {
    source_.directory = LONGSTREAM_SOURCE_DIR "/models/demo/" + name;
    const auto model = Load();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->backend().plugin().name(), name);
    EXPECT_EQ((*model)->backend().plugin().device(), "cpu");
  }
  source_.directory = directory_.string();
  // No CUDA plugin serves this model_type.
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  EXPECT_TRUE(Load().ok());
}
#endif

TEST_F(ServedModelTest, DamagedDirectories) {
  EXPECT_THAT(Error(), testing::AllOf(testing::StartsWith("model m: "),
                                      testing::HasSubstr(directory_.string() + "/config.json")));
  EXPECT_TRUE(absl::IsNotFound(Load().status())) << Load().status();
  directory_.Write("config.json", R"({"model_type": )");
  EXPECT_THAT(Error(), testing::HasSubstr(directory_.string() + "/config.json"));
}

TEST_F(ServedModelTest, ErrorsOfEveryPartNameTheModel) {
  directory_.Write("config.json", R"({"model_type": "minimal"})");
  source_.options_json = R"({"colour": 1})";
  EXPECT_EQ(Error(), R"(model m: unknown in options: {"colour":1})");
  source_.options_json = "{}";
  directory_.Write("tokenizer.json", "{");
  EXPECT_THAT(Error(), testing::AllOf(testing::StartsWith("model m: "),
                                      testing::HasSubstr("tokenizer.json")));
  std::filesystem::remove(directory_.path() / "tokenizer.json");
  directory_.Write("generation_config.json", "[]");
  EXPECT_EQ(Error(), "model m: " + directory_.string() +
                         "/generation_config.json: expected a JSON object, found array");
}

TEST(ModelDirectoriesTest, FindsDirectoriesAndGgufFiles) {
  const TemporaryDirectory root;
  const std::vector<std::string> roots = {root.string()};
  const std::string file = root.Write("m.gguf", "");
  root.Write("m.txt", "");
  std::filesystem::create_directory(root.path() / "d");
  std::filesystem::create_symlink(file, root.path() / "link.gguf");
  EXPECT_EQ(FindModelDirectory(roots, "m.gguf").value(), file);
  EXPECT_EQ(FindModelDirectory(roots, "d").value(), root.string() + "/d");
  const auto message = [&](const char* name) {
    return std::string(FindModelDirectory(roots, name).status().message());
  };
  EXPECT_EQ(message("m.txt"), "directory: m.txt is no directory and no GGUF file");
  EXPECT_EQ(message("link.gguf"), "directory: link.gguf is a symbolic link");
  EXPECT_TRUE(absl::IsNotFound(FindModelDirectory(roots, "n.gguf").status()));
  EXPECT_EQ(message("n.gguf"),
            "directory: no directory or GGUF file 'n.gguf' in admin.model_directories");
}

}  // namespace
}  // namespace longstream
