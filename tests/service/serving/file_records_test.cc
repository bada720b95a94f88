// The frame of a session's file: records come back however the bytes are cut, and damage is named.
#include "service/serving/file/file_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Records = std::vector<std::pair<RecordKind, std::string>>;

std::string SampleFile() {
  RecordWriter writer;
  std::string file = writer.Begin();
  file += writer.Record(RecordKind::kSession, "a session");
  file += writer.Record(RecordKind::kTurn, "");
  file += writer.Record(RecordKind::kTurn, std::string(1000, 't'));
  file += writer.CachesHeader(500) + std::string(500, 'c');
  file += writer.Record(RecordKind::kEnd, "");
  return file;
}

// Reads the file in pieces of this size. Joins the pieces of caches.
absl::StatusOr<Records> ReadFile(const std::string& file, size_t piece) {
  RecordReader reader(nullptr);
  Records records;
  bool joins = false;
  for (size_t begin = 0; begin < file.size(); begin += piece) {
    if (absl::Status status = reader.Add(file.substr(begin, piece)); !status.ok()) return status;
    while (true) {
      const auto record = reader.Next();
      if (!record.ok()) return record.status();
      if (!record->has_value()) break;
      const std::string data((*record)->data);
      joins ? void(records.back().second += data)
            : void(records.emplace_back((*record)->kind, data));
      joins = !(*record)->is_last_piece;
    }
  }
  return records;
}

TEST(FileRecordsTest, RecordsComeBackInPiecesOfAnySize) {
  for (const size_t piece : {1u, 7u, 100u, 10000u}) {
    SCOPED_TRACE(piece);
    const auto records = ReadFile(SampleFile(), piece);
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_THAT(
        *records,
        ElementsAre(Pair(RecordKind::kSession, "a session"), Pair(RecordKind::kTurn, ""),
                    Pair(RecordKind::kTurn, std::string(1000, 't')),
                    Pair(RecordKind::kCaches, std::string(500, 'c')), Pair(RecordKind::kEnd, "")));
  }
}

TEST(FileRecordsTest, EachChangedBitIsNoticedButInTheCachesThatCheckThemselves) {
  const std::string file = SampleFile();
  const auto whole = ReadFile(file, file.size());
  for (size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const auto records = ReadFile(damaged, 64);
    if (file[at] == 'c') continue;  // in the caches
    const bool same = records.ok() && *records == *whole;
    EXPECT_FALSE(same) << "byte " << at;
    // A size that became larger waits for bytes that never come.
    const size_t count = records.ok() ? records->size() : 0;
    EXPECT_LT(count, whole->size()) << "byte " << at;
  }
}

TEST(FileRecordsTest, AMissingOrMovedRecordIsNoticed) {
  RecordWriter writer;
  const std::string begin = writer.Begin();
  const std::string first = writer.Record(RecordKind::kTurn, "first");
  const std::string second = writer.Record(RecordKind::kTurn, "second");
  EXPECT_TRUE(ReadFile(begin + first + second, 1000).ok());
  EXPECT_EQ(ReadFile(begin + second, 1000).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadFile(begin + first + first, 1000).status().code(), absl::StatusCode::kDataLoss);
}

TEST(FileRecordsTest, OtherFilesAndVersionsAndSizesAreRefusedByName) {
  const auto error = [](const std::string& file) {
    return std::string(ReadFile(file, 1000).status().message());
  };
  EXPECT_THAT(error("{\"not\": \"a session\"}"), HasSubstr("byte 0: this is not the file of a"));
  std::string newer = SampleFile();
  newer[8] = 2;
  EXPECT_THAT(error(newer), HasSubstr("it has version 2; this program reads version 1"));
  RecordWriter writer;
  std::string large = writer.Begin() + writer.CachesHeader(kMaxRecordBytes + 1);
  large[12] = static_cast<char>(RecordKind::kTurn);
  EXPECT_THAT(error(large),
              HasSubstr("byte 12: a record of 67108865 bytes; the limit is 67108864"));
  std::string unknown = SampleFile();
  unknown[12] = 9;
  EXPECT_THAT(error(unknown), HasSubstr("there is no such kind of record"));
}

TEST(FileRecordsTest, BytesThatWaitCountInTheHostsMemory) {
  HostMemory memory(1000);
  RecordReader reader(&memory);
  EXPECT_TRUE(reader.Add(std::string(500, 'x')).ok());
  EXPECT_GE(memory.held_bytes(), 500u);
  EXPECT_EQ(reader.Add(std::string(1000, 'x')).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace longstream
