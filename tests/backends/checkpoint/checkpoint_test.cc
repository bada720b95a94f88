// Checkpoint: one file, shards with an index, and errors in both.
#include "backends/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::StartsWith;

constexpr const char* kIndex = "model.safetensors.index.json";

class CheckpointTest : public ::testing::Test {
 protected:
  // Writes two shards, with a and b; the test supplies the index.
  void WriteShards(const std::string& index) const {
    directory_.Write("s1.safetensors", SafetensorsBytes({CountingTensor("a", {2})}));
    directory_.Write("s2.safetensors", SafetensorsBytes({CountingTensor("b", {3})}));
    directory_.Write(kIndex, index);
  }

  void ExpectRefused(ls_code code, const std::string& message) const {
    ExpectError(code, message, [this] { Checkpoint checkpoint(directory_.string()); });
  }

  std::string In(const std::string& name) const { return directory_.string() + "/" + name; }

  TemporaryDirectory directory_;
};

TEST_F(CheckpointTest, SingleFile) {
  directory_.Write("model.safetensors",
                   SafetensorsBytes({CountingTensor("b", {2}), CountingTensor("a", {1, 3})}));
  const Checkpoint checkpoint(directory_.string());
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(checkpoint.tensors().begin()->first, "a");
  EXPECT_EQ(checkpoint.Find("c"), nullptr);
  const Tensor& a = checkpoint.Get("a", std::array<int64_t, 2>{1, 3});
  EXPECT_EQ(checkpoint.FileOf(a), In("model.safetensors"));
}

TEST_F(CheckpointTest, ShardsUnderAnIndex) {
  WriteShards(R"({"metadata": {"total_size": 20},
                  "weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  const Checkpoint checkpoint(directory_.string());
  EXPECT_EQ(checkpoint.FileOf(*checkpoint.Find("a")), In("s1.safetensors"));
  EXPECT_EQ(checkpoint.FileOf(*checkpoint.Find("b")), In("s2.safetensors"));
}

// The sum of the numbers of two stored tensors.
class SumTensor final : public ComputedTensor {
 public:
  SumTensor(Tensor tensor, const StoredPart& first, const StoredPart& second)
      : ComputedTensor(std::move(tensor), first.file->path()), first_(first), second_(second) {}

  const std::string& path() const override { return first_.file->path(); }
  std::string recipe() const override { return "a sum"; }
  void ReadRows(int64_t first, int64_t rows, std::byte* to,
                const Executor& executor) const override {
    std::vector<float> terms[2];
    const StoredPart* parts[] = {&first_, &second_};
    for (int i = 0; i < 2; ++i) {
      terms[i].resize(static_cast<size_t>(rows));
      parts[i]->file->Read(parts[i]->tensor->offset + static_cast<uint64_t>(first) * sizeof(float),
                           std::as_writable_bytes(std::span(terms[i])), executor);
    }
    for (size_t i = 0; i < terms[0].size(); ++i) {
      const float sum = terms[0][i] + terms[1][i];
      std::memcpy(to + i * sizeof(float), &sum, sizeof(sum));
    }
  }

 private:
  StoredPart first_, second_;
};

TEST_F(CheckpointTest, ComputedTensorsTakeThePlaceOfTheirParts) {
  WriteShards(R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  Checkpoint checkpoint(directory_.string());
  const StoredPart a = *checkpoint.FindStored("a"), b = *checkpoint.FindStored("b");
  Tensor tensor{.name = "a", .type_name = "a sum", .type = DType::kF32, .shape = {2}};
  checkpoint.AddComputed(std::make_unique<SumTensor>(tensor, a, b),
                         std::vector<std::string>{"a", "b"});
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_EQ(checkpoint.Find("b"), nullptr);
  EXPECT_FALSE(checkpoint.FindStored("a"));
  const Tensor& sum = checkpoint.Get("a", std::array<int64_t, 1>{2});
  EXPECT_EQ(sum.num_bytes, 8u);
  EXPECT_EQ(checkpoint.FileOf(sum), In("s1.safetensors"));
  EXPECT_EQ(checkpoint.RecipeOf(sum), " a sum");
  std::vector<float> number(1);
  checkpoint.Read(sum, 4, std::as_writable_bytes(std::span(number)), Executor());
  EXPECT_EQ(number[0], 2.0f);

  tensor.shape = {int64_t{1} << 31, int64_t{1} << 31};
  ExpectError(
      LS_INVALID_ARGUMENT,
      In("s1.safetensors") +
          ": tensor \"a\" has the shape [2147483648, 2147483648], whose bytes exceed 63 bits",
      [&] { SumTensor(tensor, a, b); });
}

TEST_F(CheckpointTest, NothingThere) {
  ExpectRefused(LS_NOT_FOUND, directory_.string() +
                                  ": expected model.safetensors, model.safetensors.index.json or a "
                                  "GGUF file, found none");
}

TEST_F(CheckpointTest, MissingTensorAndWrongShape) {
  directory_.Write("model.safetensors", SafetensorsBytes({CountingTensor("a", {2, 3}),
                                                          {"ids", "I64", {1}, "12345678"}}));
  const Checkpoint checkpoint(directory_.string());
  ExpectError(LS_INVALID_ARGUMENT,
              directory_.string() + ": tensor \"x\" is missing, expected shape [4, 5]", [&] {
                checkpoint.Get("x", std::array<int64_t, 2>{4, 5});
              });
  ExpectError(LS_INVALID_ARGUMENT,
              In("model.safetensors") + ": tensor \"a\" must have the shape [3, 2], found [2, 3]",
              [&] {
                checkpoint.Get("a", std::array<int64_t, 2>{3, 2});
              });
  ExpectError(LS_INVALID_ARGUMENT,
              In("model.safetensors") + ": tensor \"a\" must have the shape [6], found [2, 3]",
              [&] { checkpoint.Get("a", std::array<int64_t, 1>{6}); });
  ExpectError(LS_INVALID_ARGUMENT,
              In("model.safetensors") + ": tensor \"ids\" must be F32, F16 or BF16, found I64",
              [&] { checkpoint.Get("ids", std::array<int64_t, 1>{1}); });
}

TEST_F(CheckpointTest, IndexThatLeavesTheDirectory) {
  for (const std::string name :
       {"../s1.safetensors", "/etc/passwd", "sub/s1.safetensors", "..", ""}) {
    SCOPED_TRACE(name);
    WriteShards(R"({"weight_map": {"a": ")" + name + R"("}})");
    ExpectRefused(
        LS_INVALID_ARGUMENT,
        In(kIndex) + ": tensor \"a\" must be in a file of this directory, found \"" + name + "\"");
  }
}

TEST_F(CheckpointTest, IndexThatIsNone) {
  WriteShards("{");
  ExpectError(LS_DATA_LOSS, StartsWith(In(kIndex) + ": no valid JSON: "),
              [this] { Checkpoint checkpoint(directory_.string()); });
  WriteShards(R"({"weight_map": []})");
  ExpectRefused(LS_DATA_LOSS, In(kIndex) + ": weight_map must be an object, found array");
  WriteShards("{}");
  ExpectRefused(LS_DATA_LOSS, In(kIndex) + ": weight_map must be an object, found nothing");
  WriteShards(R"({"weight_map": {"a": 5}})");
  ExpectRefused(LS_INVALID_ARGUMENT,
                In(kIndex) + ": tensor \"a\" must be in a file of this directory, found 5");
}

TEST_F(CheckpointTest, MissingShard) {
  WriteShards(R"({"weight_map": {"a": "s1.safetensors", "b": "s3.safetensors"}})");
  ExpectRefused(LS_NOT_FOUND,
                In("s3.safetensors") + ": cannot be opened: No such file or directory");
}

// The hub's cache without its blobs.
TEST_F(CheckpointTest, LinksThatLeadNowhere) {
  const std::string why =
      ": cannot be opened: is a link to ../blobs/7, which is not there: the directory is "
      "incomplete";
  WriteShards(R"({"weight_map": {"a": "s1.safetensors", "b": "s3.safetensors"}})");
  std::filesystem::create_symlink("../blobs/7", In("s3.safetensors"));
  ExpectRefused(LS_NOT_FOUND, In("s3.safetensors") + why);
  std::filesystem::create_symlink("../blobs/7", In("model.safetensors"));
  ExpectRefused(LS_NOT_FOUND, In("model.safetensors") + why);
}

TEST_F(CheckpointTest, DamagedShard) {
  WriteShards(R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  directory_.Write("s2.safetensors", "short");
  ExpectRefused(LS_DATA_LOSS, In("s2.safetensors") +
                                  ": expected a header length of 8 bytes, found a file of 5 bytes");
}

TEST_F(CheckpointTest, IndexAndShardsDisagree) {
  WriteShards(R"({"weight_map": {"a": "s2.safetensors", "b": "s2.safetensors"}})");
  ExpectRefused(LS_INVALID_ARGUMENT, In("s2.safetensors") + ": tensor \"a\" is missing, though " +
                                         In(kIndex) + " says that it is there");
  WriteShards(R"({"weight_map": {"a": "s2.safetensors", "b": "s1.safetensors"}})");
  ExpectRefused(LS_INVALID_ARGUMENT, In("s2.safetensors") + ": tensor \"a\" is missing, though " +
                                         In(kIndex) + " says that it is there");
  WriteShards(R"({"weight_map": {"a": "s1.safetensors"}})");
  directory_.Write("s1.safetensors",
                   SafetensorsBytes({CountingTensor("a", {2}), CountingTensor("c", {1})}));
  ExpectRefused(LS_INVALID_ARGUMENT,
                In("s1.safetensors") + ": tensor \"c\" is not in " + In(kIndex));
}

TEST_F(CheckpointTest, ATensorInTwoShards) {
  WriteShards(R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  directory_.Write("s2.safetensors",
                   SafetensorsBytes({CountingTensor("b", {3}), CountingTensor("a", {2})}));
  ExpectRefused(
      LS_INVALID_ARGUMENT,
      In("s2.safetensors") + ": tensor \"a\" is in another shard too, " + In("s1.safetensors"));
}

}  // namespace
}  // namespace longstream
