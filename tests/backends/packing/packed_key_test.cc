// The key of packed weights: every change that must change it.
#include "backends/packing/packed_key.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "backends/checkpoint/safetensors.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

OpTable NamedPackingOps() {
  OpTable ops;
  ops.name = "test";
  ops.packed_bytes = reference::PackedBytes;
  ops.pack = reference::Pack;
  ops.compress = reference::Compress;
  return ops;
}

// File times advance in steps of some milliseconds.
void AwaitAnotherTime() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

std::string SamplesOf(const std::string& line) { return line.substr(line.find("samples")); }

class SourceLineTest : public ::testing::Test {
 protected:
  std::string Line() const { return SourceLine(SafetensorsFile(path_)); }
  void Write(float first) const {
    directory_.Write("m.safetensors", SafetensorsBytes({CountingTensor("a", {400'000}, first)}));
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.string() + "/m.safetensors";
};

TEST_F(SourceLineTest, IsTheSameForTheSameFile) {
  Write(0);
  const std::string line = Line();
  EXPECT_THAT(line, StartsWith("file \"m.safetensors\" of 1600"));
  EXPECT_EQ(Line(), line);
}

TEST_F(SourceLineTest, AnotherContentOfTheSameSizeAndTime) {
  Write(0);
  const std::string line = Line();
  struct stat before = {};
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  AwaitAnotherTime();
  Write(1);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_NE(Line(), line);                        // the change time differs
  EXPECT_NE(SamplesOf(Line()), SamplesOf(line));  // the samples differ as well
}

// The changed byte is in no sample, so only the change time shows it.
TEST_F(SourceLineTest, OneByte) {
  Write(0);
  const std::string line = Line();
  AwaitAnotherTime();
  TensorSource tensor = CountingTensor("a", {400'000});
  tensor.bytes[8000] ^= 1;
  directory_.Write("m.safetensors", SafetensorsBytes({tensor}));
  EXPECT_EQ(SamplesOf(Line()), SamplesOf(line));
  EXPECT_NE(Line(), line);
}

TEST_F(SourceLineTest, SamplesSeeBothEnds) {
  TensorSource tensor = CountingTensor("a", {400'000});
  directory_.Write("m.safetensors", SafetensorsBytes({tensor}));
  const std::string samples = SamplesOf(Line());
  for (const size_t place : {size_t{0}, tensor.bytes.size() - 50}) {
    TensorSource other = tensor;
    other.bytes[place] ^= 1;
    directory_.Write("m.safetensors", SafetensorsBytes({other}));
    EXPECT_NE(SamplesOf(Line()), samples) << place;
  }
}

TEST_F(SourceLineTest, SmallFilesAreReadWhole) {
  TensorSource tensor = CountingTensor("a", {5000});
  directory_.Write("m.safetensors", SafetensorsBytes({tensor}));
  const std::string samples = SamplesOf(Line());
  for (size_t place = 0; place < tensor.bytes.size(); place += 997) {
    TensorSource other = tensor;
    other.bytes[place] ^= 1;
    directory_.Write("m.safetensors", SafetensorsBytes({other}));
    EXPECT_NE(SamplesOf(Line()), samples) << place;
  }
}

template <DType kType>
void PackOtherwise(const Executor& executor, const PackArgs& args) {
  reference::Pack(executor, args);
  if (args.type == kType) static_cast<unsigned char*>(args.destination)[100] ^= 1;
}

// Packs groups that come as groups otherwise.
template <DType kSource, DType kType>
void PackGroupsOtherwise(const Executor& executor, const PackArgs& args) {
  reference::Pack(executor, args);
  if (args.source_type == kSource && args.type == kType) {
    static_cast<unsigned char*>(args.destination)[100] ^= 1;
  }
}

void CompressOtherwise(const Executor&, const CompressArgs& args) {
  if (args.type == DType::kBF16) static_cast<unsigned char*>(args.packed)[100] ^= 1;
}

TEST(LayoutLineTest, IsOfTheBytesThatPackingMakes) {
  const OpTable ops = NamedPackingOps();
  const std::string line = LayoutLine(ops);
  EXPECT_EQ(LayoutLine(ops), line);
  for (const PackFunction pack :
       {PackOtherwise<DType::kF32>, PackOtherwise<DType::kF16>, PackOtherwise<DType::kBF16>,
        PackOtherwise<DType::kI8>, PackOtherwise<DType::kI4>,
        PackGroupsOtherwise<DType::kI8, DType::kI8>, PackGroupsOtherwise<DType::kI4, DType::kI8>,
        PackGroupsOtherwise<DType::kI4, DType::kI4>}) {
    OpTable other = ops;
    other.pack = pack;
    EXPECT_NE(LayoutLine(other), line);
  }
  OpTable other = ops;
  other.compress = CompressOtherwise;
  EXPECT_NE(LayoutLine(other), line);
}

TEST(BlocksLineTest, IsTheSameEachTime) {
  EXPECT_THAT(BlocksLine(), StartsWith("blocks "));
  EXPECT_EQ(BlocksLine(), BlocksLine());
}

TEST(PackedKeyTest, SaysWhatDecides) {
  const TemporaryDirectory directory;
  directory.Write("model.safetensors", SafetensorsBytes({CountingTensor("a", {10})}));
  const Checkpoint checkpoint(directory.string());
  const std::string key = PackedKey(checkpoint, NamedPackingOps(), "recipe\n");
  EXPECT_THAT(key, StartsWith("longstream "));
  EXPECT_THAT(key, HasSubstr("\nops test\nlayout "));
  EXPECT_THAT(key, HasSubstr("\n" + BlocksLine() + "\n"));
  EXPECT_THAT(key, HasSubstr("\nfile \"model.safetensors\" of "));
  EXPECT_TRUE(key.ends_with("\nrecipe\n"));
}

TEST(PackedKeyTest, DifferencesAreShownByLines) {
  EXPECT_EQ(DifferenceOf("a\nbc\nd\n", "a\nbx\nd\n"), "expected 'bc', found 'bx'");
  EXPECT_EQ(DifferenceOf("a\n", "b\n"), "expected 'a', found 'b'");
  EXPECT_EQ(DifferenceOf("a\nb\n", "a\n"), "expected 'b', found ''");
  EXPECT_EQ(DifferenceOf("", "a\n"), "expected '', found 'a'");
}

TEST(CheckpointStampTest, KnowsThatItsFilesHaveChanged) {
  const TemporaryDirectory directory;
  const std::string bytes = SafetensorsBytes({CountingTensor("a", {10})});
  const std::string path = directory.Write("model.safetensors", bytes);
  const Checkpoint checkpoint(directory.string());
  EXPECT_TRUE(checkpoint.IsUnchanged());
  AwaitAnotherTime();
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_FALSE(checkpoint.IsUnchanged());
  EXPECT_TRUE(Checkpoint(directory.string()).IsUnchanged());
  std::filesystem::remove(path);
  EXPECT_FALSE(checkpoint.IsUnchanged());
}

}  // namespace
}  // namespace longstream
