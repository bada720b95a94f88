// Files that are refused as plugins, with the whole sentence. A bad file must not keep others from
// loading.
#include "service/models/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "service/models/backend_model.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

const std::filesystem::path kPlugins = LONGSTREAM_BINARY_DIR "/plugins";
const std::filesystem::path kTestPlugins = LONGSTREAM_BINARY_DIR "/test_plugins";

// The sentence with which a test plugin is refused, without its beginning "plugin FILE: ".
std::string Refusal(const std::string& name) {
  const std::filesystem::path file = kTestPlugins / ("registry_" + name + ".so");
  EXPECT_TRUE(std::filesystem::exists(file)) << file;
  const absl::Status status = Plugin::Load(file).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  const std::string message(status.message());
  const std::string start = "plugin " + file.string() + ": ";
  EXPECT_TRUE(message.starts_with(start)) << message;
  return message.substr(std::min(start.size(), message.size()));
}

TEST(PluginTest, LoadsAGoodOne) {
  const auto plugin = Plugin::Load(kPlugins / "minimal.cpu.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->name(), "minimal");
  EXPECT_EQ((*plugin)->device(), "cpu");
  EXPECT_EQ((*plugin)->file(), kPlugins / "minimal.cpu.so");
  EXPECT_TRUE((*plugin)->Can(LS_CAP_FORK));
  EXPECT_FALSE((*plugin)->Can(LS_CAP_QUANTISED_WEIGHTS));
}

TEST(PluginTest, WhatNoCapabilityPromisesMayBeMissing) {
  const auto plugin = Plugin::Load(kTestPlugins / "registry_forkless.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_FALSE((*plugin)->Can(LS_CAP_FORK));
}

TEST(PluginTest, RefusesWhatIsNoLibrary) {
  const TemporaryDirectory directory;
  directory.Write("text.so", "this is no shared library");
  const std::filesystem::path file = directory.path() / "text.so";
  const absl::Status status = Plugin::Load(file).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  // The message of the dynamic loader follows, and it begins with the file's name too.
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith("plugin " + file.string() + ": " + file.string() + ": "));
}

TEST(PluginTest, RefusesAFileThatIsNotThere) {
  const absl::Status status = Plugin::Load("/nowhere/absent.so").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::StartsWith("plugin /nowhere/absent.so: "),
                             testing::HasSubstr("No such file or directory")));
}

TEST(PluginTest, RefusesALibraryOrTableThatIsNotTheAbi) {
  EXPECT_EQ(Refusal("no_symbol"), "it exports no symbol longstream_backend");
  EXPECT_EQ(Refusal("no_table"), "longstream_backend() returned no table");
  EXPECT_EQ(Refusal("other_major"), "built for backend ABI 2.4, this server needs 1.4");
  EXPECT_EQ(Refusal("small_table"), "its table has 176 bytes, ABI 1.0 needs at least 184");
  EXPECT_EQ(Refusal("no_name"), "name, device or version is missing in its table");
  EXPECT_EQ(Refusal("no_submit"), "the function submit is missing");
  EXPECT_EQ(Refusal("no_fork"), "the function sequence_fork is missing");
  EXPECT_EQ(Refusal("no_set_budget"), "the function model_set_budget is missing");
  EXPECT_EQ(Refusal("no_segments"), "the function snapshot_begin is missing");
}

TEST(PluginTest, ATableOfAnOlderMinorVersionIsAccepted) {
  const auto plugin = Plugin::Load(kTestPlugins / "registry_older_minor.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_FALSE((*plugin)->Can(LS_CAP_SET_BUDGET));
}

TEST(PluginTest, ATableOfTheVersionBeforeSegmentsServesWithoutSnapshots) {
  const auto plugin = Plugin::Load(kTestPlugins / "registry_before_segments.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_TRUE((*plugin)->Can(LS_CAP_SET_BUDGET));
  EXPECT_FALSE((*plugin)->Can(LS_CAP_SEGMENTS));
  const TemporaryDirectory directory;
  directory.Write("config.json", R"({"model_type": "minimal"})");
  const Host host(Executor{}, nullptr);
  BackendModel::Options options;
  options.directory = directory.string();
  const auto model = BackendModel::Open(*plugin, options, &host);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->CanSnapshot());
  EXPECT_TRUE(absl::IsUnimplemented((*model)->BeginImport(0).status()));
  const auto sequence = (*model)->CreateSequence();
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_TRUE(absl::IsUnimplemented((*model)->BeginSnapshot(*sequence, 0).status()));
}

TEST(PluginDirectoryTest, ABrokenFileDoesNotKeepTheOthersFromLoading) {
  const TemporaryDirectory directory;
  for (const char* name : {"dense.cpu.so", "minimal.cpu.so"}) {
    std::filesystem::copy_file(kPlugins / name, directory.path() / name);
  }
  directory.Write("broken.cpu.so", "damaged");
  directory.Write("readme.txt", "not a plugin, and no error either");
  const auto found = LoadPluginDirectory(directory.path());
  ASSERT_TRUE(found.ok()) << found.status();

  ASSERT_EQ(found->plugins.size(), 2u);
  EXPECT_EQ(found->plugins[0]->name(), "dense");
  EXPECT_EQ(found->plugins[1]->name(), "minimal");
  ASSERT_EQ(found->refused.size(), 1u);
  EXPECT_THAT(
      std::string(found->refused[0].message()),
      testing::StartsWith("plugin " + (directory.path() / "broken.cpu.so").string() + ": "));
}

TEST(PluginDirectoryTest, OfTwoFilesWithOneBackendTheFirstIsTaken) {
  const TemporaryDirectory directory;
  for (const char* name : {"a.so", "b.so"}) {
    std::filesystem::copy_file(kPlugins / "minimal.cpu.so", directory.path() / name);
  }
  const auto found = LoadPluginDirectory(directory.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->plugins.size(), 1u);
  ASSERT_EQ(found->refused.size(), 1u);
  EXPECT_EQ(found->refused[0].message(),
            "plugin " + (directory.path() / "b.so").string() +
                ": an earlier file has the backend minimal for the device cpu");
}

TEST(PluginDirectoryTest, OneThatCannotBeReadIsAnError) {
  const absl::Status status = LoadPluginDirectory("/nowhere/plugins").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "plugin directory /nowhere/plugins: No such file or directory");
}

}  // namespace
}  // namespace longstream
