// Segments as files: what a fault of the disk leaves, and what damage a reader notices.
#include "service/sessions/store/segments/segment_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/service/sessions/store/faulty_directory.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Writes one fixed block in pieces of `piece` bytes. Returns it as it is stored.
absl::StatusOr<StoredSegment> WriteOne(SegmentFiles& files, size_t bytes, size_t piece,
                                       std::shared_ptr<WrittenSegments>* written) {
  const auto writer = files.NewWriter();
  absl::Status status = writer->Begin(NewFixed(1, 10));
  const std::string all = SegmentBytes(NewKey(1), bytes);
  for (size_t at = 0; status.ok() && at < bytes; at += piece) {
    status = writer->Append(std::string_view(all).substr(at, piece));
  }
  if (!status.ok()) return status;
  auto finished = writer->Finish();
  if (!finished.ok()) return finished.status();
  *written = *std::move(finished);
  return static_cast<WrittenFiles&>(**written).segments()[0];
}

absl::StatusOr<std::string> ReadAll(SegmentFiles& files, const StoredSegment& segment) {
  const auto reader = files.NewReader(segment);
  if (!reader.ok()) return reader.status();
  std::string bytes(segment.row.bytes + 1, '\0');
  const auto got = (*reader)->Read(absl::MakeSpan(bytes.data(), bytes.size()));
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  return bytes;
}

class SegmentFilesTest : public testing::Test {
 protected:
  absl::Status WriteStatus(size_t bytes = kLarge) {
    std::shared_ptr<WrittenSegments> written;
    return WriteOne(files_, bytes, 10'000, &written).status();
  }

  FaultyDirectory disk_;
  SegmentFiles files_{disk_.View()};
};

TEST_F(SegmentFilesTest, ASegmentOf64KiBIsAFileHoweverItComes) {
  for (const size_t piece : {1u, 1000u, 65'536u, 1'000'000u}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, kMinFileBytes - 1, kMinFileBytes, kLarge}) {
      if (piece == 1 && bytes == kLarge) continue;
      std::shared_ptr<WrittenSegments> written;
      const auto segment = WriteOne(files_, bytes, piece, &written);
      ASSERT_TRUE(segment.ok()) << segment.status();
      EXPECT_EQ(segment->file.empty(), bytes < kMinFileBytes);
      EXPECT_EQ(segment->row.bytes, bytes);
      EXPECT_TRUE(*ReadAll(files_, *segment) == SegmentBytes(NewKey(1), bytes));
      EXPECT_EQ(files_.bytes(), bytes < kMinFileBytes ? 0 : bytes);
    }
  }
  EXPECT_THAT(disk_.Files(), IsEmpty()) << "segments without a row are removed";
}

TEST_F(SegmentFilesTest, FilesOfTheSystem) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/segments";
  SegmentFiles files(NewPosixDirectory(path));
  EXPECT_THAT(*files.directory().List(), IsEmpty()) << "it does not exist yet";
  ASSERT_TRUE(files.directory().Remove("missing").ok());
  {
    std::shared_ptr<WrittenSegments> written;
    const auto segment = WriteOne(files, kLarge, 10'000, &written);
    ASSERT_TRUE(segment.ok()) << segment.status();
    EXPECT_TRUE(*ReadAll(files, *segment) == SegmentBytes(NewKey(1), kLarge));
    EXPECT_THAT(*files.directory().List(), testing::ElementsAre(segment->file));
    EXPECT_FALSE(files.directory().Create(segment->file).ok()) << "a file is never changed";
    struct stat found {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u);
  }
  EXPECT_THAT(*files.directory().List(), IsEmpty());
  EXPECT_GT(files.directory().Room()->capacity, 0u);
}

TEST_F(SegmentFilesTest, APlaceThatCannotBeWrittenIsUnavailable) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("file", "text") + "/segments";
  SegmentFiles files(NewPosixDirectory(path));
  std::shared_ptr<WrittenSegments> written;
  const absl::Status status = WriteOne(files, kLarge, kLarge, &written).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST_F(SegmentFilesTest, AFaultOfTheDiskGivesUpTheSegment) {
  disk_.SetFsyncFails(true, false);
  EXPECT_EQ(WriteStatus().code(), absl::StatusCode::kUnavailable);
  disk_.SetFsyncFails(false, true);
  EXPECT_EQ(WriteStatus().code(), absl::StatusCode::kUnavailable);
  disk_.SetFsyncFails(false, false);
  disk_.SetFull(true);
  EXPECT_EQ(WriteStatus().code(), absl::StatusCode::kResourceExhausted);
  disk_.SetFull(false);
  EXPECT_THAT(disk_.Files(), IsEmpty());
  EXPECT_EQ(files_.bytes(), 0u);
  EXPECT_TRUE(WriteStatus().ok());
}

TEST_F(SegmentFilesTest, TheLastRoomIsKeptForTheLog) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  disk_.SetRoom({.capacity = 1000 * kGiB, .free = kGiB});
  const absl::Status refused = WriteStatus(1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("kept for the log"));
  disk_.SetRoom({.capacity = 1000 * kGiB, .free = kGiB + 1});
  EXPECT_TRUE(WriteStatus(1).ok());
  disk_.SetRoom({.capacity = 20'000'000, .free = 1'000'000});
  EXPECT_FALSE(WriteStatus(1).ok()) << "a twentieth of a small disk";
  disk_.SetRoom({.capacity = 20'000'000, .free = 1'000'001});
  EXPECT_TRUE(WriteStatus(1).ok());
  disk_.SetRoom({.capacity = 0, .free = 0});
  EXPECT_TRUE(WriteStatus(1).ok()) << "some file systems do not say how large they are";

  // The room may end while a segment is being written.
  const auto writer = files_.NewWriter();
  ASSERT_TRUE(writer->Begin(NewFixed(1, 10)).ok());
  ASSERT_TRUE(writer->Append(std::string(kLarge, 'x')).ok());
  disk_.SetRoom({.capacity = 20'000'000, .free = 1'000'000});
  EXPECT_TRUE(absl::IsResourceExhausted(writer->Append("x")));
}

TEST_F(SegmentFilesTest, AFileThatIsCutOrMissingIsDataLoss) {
  std::shared_ptr<WrittenSegments> written;
  const auto segment = WriteOne(files_, kMinFileBytes, 10'000, &written);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::string bytes = SegmentBytes(NewKey(1), kMinFileBytes);
  for (size_t size = 0; size <= bytes.size() + 1; size += size < bytes.size() - 3 ? 997 : 1) {
    if (size == bytes.size()) continue;
    disk_.Put(segment->file, (bytes + "x").substr(0, size), At(0));
    EXPECT_EQ(ReadAll(files_, *segment).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  disk_.Erase(segment->file);
  const auto missing = ReadAll(files_, *segment);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(missing.status().message(), HasSubstr(NewKey(1).ToString()));
}

TEST_F(SegmentFilesTest, AFlippedBitAnywhereIsDataLoss) {
  std::shared_ptr<WrittenSegments> of_file, of_row;
  const auto file = WriteOne(files_, kMinFileBytes, 10'000, &of_file);
  const auto row = WriteOne(files_, 3000, 1000, &of_row);
  std::string bytes = SegmentBytes(NewKey(1), kMinFileBytes);
  for (size_t offset = 0; offset < bytes.size(); offset += 13) {
    const auto bit = static_cast<char>(1 << offset % 8);
    bytes[offset] = static_cast<char>(bytes[offset] ^ bit);
    disk_.Put(file->file, bytes, At(0));
    ASSERT_EQ(ReadAll(files_, *file).status().code(), absl::StatusCode::kDataLoss) << offset;
    bytes[offset] = static_cast<char>(bytes[offset] ^ bit);
  }
  StoredSegment damaged = *row;
  for (size_t offset = 0; offset < damaged.data.size(); ++offset) {
    damaged.data[offset] = static_cast<char>(damaged.data[offset] ^ 4);
    ASSERT_EQ(ReadAll(files_, damaged).status().code(), absl::StatusCode::kDataLoss) << offset;
    damaged.data[offset] = static_cast<char>(damaged.data[offset] ^ 4);
  }
  EXPECT_TRUE(ReadAll(files_, damaged).ok());
}

TEST_F(SegmentFilesTest, RemovesFilesThatNoRowNames) {
  const auto name = [](char digit) { return std::string(32, digit); };
  for (const char digit : {'a', 'b', 'c', '0'}) disk_.Put(name(digit), "bytes", At(0));
  ASSERT_TRUE(files_.RemoveOthers({name('c'), name('a'), name('f')}, 10).ok());
  EXPECT_THAT(disk_.Files(), SizeIs(2));
  EXPECT_TRUE(disk_.Files().contains(name('a')) && disk_.Files().contains(name('c')));
  EXPECT_EQ(files_.bytes(), 10u);
}

// The directory may hold files that the store has not made.
TEST_F(SegmentFilesTest, FilesWithOtherNamesStay) {
  const std::vector<std::string> others = {"song.wav", std::string(31, 'a'), std::string(33, 'a'),
                                           std::string(32, 'A'), std::string(32, 'g')};
  for (const std::string& name : others) disk_.Put(name, "bytes", At(0));
  ASSERT_TRUE(files_.RemoveOthers({}, 0).ok());
  EXPECT_THAT(disk_.Files(), SizeIs(others.size()));
}

}  // namespace
}  // namespace longstream::store
