// Segments that are sealed: what opens, the change of keys, and checks with and without keys.
#include "service/sessions/store/segments/sealed_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/sealing/sealed_block.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/sqlite/database.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "service/sessions/store/sqlite/store_files.h"
#include "tests/service/sessions/store/faulty_directory.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A segment of SegmentFiles, which keeps its file.
struct Written {
  std::shared_ptr<WrittenSegments> all;
  StoredSegment segment;
};

Written WriteOne(SegmentFiles& files, const SegmentRow& row, const std::string& bytes) {
  const auto writer = files.NewWriter();
  EXPECT_TRUE(writer->Begin(row).ok());
  for (size_t at = 0; at < bytes.size(); at += 10'000) {
    EXPECT_TRUE(writer->Append(std::string_view(bytes).substr(at, 10'000)).ok());
  }
  Written written;
  written.all = writer->Finish().value();
  written.segment = static_cast<WrittenFiles&>(*written.all).segments()[0];
  return written;
}

absl::StatusOr<std::string> ReadOne(SegmentFiles& files, const StoredSegment& segment) {
  const auto reader = files.NewReader(segment);
  if (!reader.ok()) return reader.status();
  std::string bytes;
  std::string piece(3000, '\0');
  while (true) {
    const auto got = (*reader)->Read(absl::MakeSpan(piece.data(), piece.size()));
    if (!got.ok()) return got.status();
    bytes.append(piece, 0, *got);
    if (*got < piece.size()) return bytes;
  }
}

class SealedFilesTest : public testing::Test {
 protected:
  FaultyDirectory disk_;
  SegmentFiles sealed_{disk_.View(), SealedWith("a")};
  SegmentFiles plain_{disk_.View()};
};

TEST_F(SealedFilesTest, SegmentsOfAllSizesAreSealed) {
  for (const Compression compression : {Compression::kNone, Compression::kZstd}) {
    SegmentFiles files(disk_.View(), SealedWith("a", compression));
    for (const size_t size : {size_t{0}, size_t{1}, size_t{3000}, kMinFileBytes, kLarge}) {
      const std::string bytes = SegmentBytes(NewKey(1), size);
      const Written written = WriteOne(files, NewFixed(1, 10), bytes);
      EXPECT_TRUE(ReadOne(files, written.segment).value() == bytes) << size;
      EXPECT_GT(written.segment.row.bytes, size);
      EXPECT_EQ(written.segment.file.empty(), written.segment.row.bytes < kMinFileBytes);
      const std::string stored = written.segment.file.empty()
                                     ? written.segment.data
                                     : disk_.Files().at(written.segment.file);
      EXPECT_EQ(stored.size(), written.segment.row.bytes);
      EXPECT_EQ(SealedBy(stored).value_or("none"), "a");
      EXPECT_EQ(files.bytes(), written.segment.file.empty() ? 0 : stored.size());
    }
    EXPECT_EQ(files.bytes(), 0u);
  }
}

TEST_F(SealedFilesTest, CompressionMakesRepeatingBytesFew) {
  SegmentFiles files(disk_.View(), SealedWith("a", Compression::kZstd));
  const Written written = WriteOne(files, NewFixed(1, 10), std::string(1'000'000, 'x'));
  EXPECT_LT(written.segment.row.bytes, 10'000u);
  EXPECT_TRUE(ReadOne(files, written.segment).value() == std::string(1'000'000, 'x'));
  EXPECT_TRUE(ReadOne(sealed_, written.segment).ok()) << "whatever the reader would write";
}

// Somebody who changes the disk can also compute the checksum of the row.
TEST_F(SealedFilesTest, ASegmentOpensOnlyInItsPlace) {
  const std::string bytes = SegmentBytes(NewKey(1), 1000);
  SegmentRow span = NewSpan(1, 1, NewKey(9));
  const Written written = WriteOne(sealed_, span, bytes);
  EXPECT_TRUE(ReadOne(sealed_, written.segment).ok());
  const auto moved = [&](auto change) {
    StoredSegment segment = written.segment;
    change(segment.row);
    return ReadOne(sealed_, segment).status().code();
  };
  constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
  EXPECT_EQ(moved([](SegmentRow& row) { row.key = NewKey(2); }), kDataLoss);
  EXPECT_EQ(moved([](SegmentRow& row) { row.kind = SegmentKind::kFixed; }), kDataLoss);
  EXPECT_EQ(moved([](SegmentRow& row) { row.begin = 65; }), kDataLoss);
  EXPECT_EQ(moved([](SegmentRow& row) { row.end = 129; }), kDataLoss);
  EXPECT_EQ(moved([](SegmentRow& row) { row.previous = NewKey(8); }), kDataLoss);
  EXPECT_EQ(moved([](SegmentRow& row) { row.previous.reset(); }), kDataLoss);
}

TEST_F(SealedFilesTest, AnAlteredSegmentIsDamagedAlsoWithARightChecksum) {
  const std::string bytes = SegmentBytes(NewKey(1), 1000);
  const Written written = WriteOne(sealed_, NewFixed(1, 10), bytes);
  // Written as plain bytes, altered sealed ones have the checksum that belongs to them.
  for (size_t at = 0; at < written.segment.data.size(); at += 3) {
    std::string altered = written.segment.data;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    const Written forged = WriteOne(plain_, NewFixed(1, 10), altered);
    const auto read = ReadOne(sealed_, forged.segment);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(NewKey(1).ToString()));
  }
  for (size_t size = 0; size < written.segment.data.size(); size += 10) {
    const Written cut = WriteOne(plain_, NewFixed(1, 10), written.segment.data.substr(0, size));
    ASSERT_EQ(ReadOne(sealed_, cut.segment).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST_F(SealedFilesTest, WithKeysOnlySealedSegmentsAreReadAndWithoutOnlyOthers) {
  for (const size_t size : {size_t{1000}, kLarge}) {
    const std::string bytes = SegmentBytes(NewKey(1), size);
    const Written plain = WriteOne(plain_, NewFixed(1, 10), bytes);
    const Written sealed = WriteOne(sealed_, NewFixed(1, 10), bytes);
    const auto not_sealed = ReadOne(sealed_, plain.segment);
    EXPECT_EQ(not_sealed.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(not_sealed.status().message()), HasSubstr("sealed file"));
    const auto no_keys = ReadOne(plain_, sealed.segment);
    EXPECT_EQ(no_keys.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(no_keys.status().message()), HasSubstr("there are no keys"));
    SegmentFiles other(disk_.View(), SealedWith("b"));
    const auto other_key = ReadOne(other, sealed.segment);
    EXPECT_EQ(other_key.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(other_key.status().message()), HasSubstr("'a'"));
  }
}

class SealedStoreTest : public testing::Test {
 protected:
  void Open(const Sealing& sealing) {
    store_.reset();
    auto store = SqliteStore::Open(path_, {.sealing = sealing});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // A turn with a snapshot: a span in a file, and a fixed block in a row.
  void AddTurn(uint64_t number) {
    if (number == 1) {
      ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
    }
    const TurnNumber turn = CommitOne(*store_, NewSession(7).key, number, 64 * number);
    const auto previous = number == 1 ? std::nullopt : std::optional(NewKey(number - 1));
    ASSERT_TRUE(AddOne(*store_, turn, 100 + number, NewKey(number),
                       {{NewSpan(number, number - 1, previous), kLarge},
                        {NewFixed(100 + number, 64 * number), 3000}})
                    .ok());
  }
  // The status of reading all segments of `turns` turns.
  absl::Status ReadSegments(uint64_t turns) {
    for (uint64_t number = 1; number <= turns; ++number) {
      for (const auto& [key, size] : {std::pair(number, kLarge), {100 + number, size_t{3000}}}) {
        const auto bytes = ReadAll(*store_, "", NewKey(key));
        if (!bytes.ok()) return bytes.status();
        EXPECT_TRUE(*bytes == SegmentBytes(NewKey(key), size));
      }
    }
    return absl::OkStatus();
  }
  std::vector<std::string> Check(const Sealing& sealing) {
    return CheckStore(path_, 10, sealing.keys).value();
  }
  // Everything that the store has on the disk.
  std::string AllBytes() {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      all.append(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  uint64_t FileBytes() {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_ + "/segments")) {
      bytes += entry.file_size();
    }
    return bytes;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.string() + "/store";
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(SealedStoreTest, NoByteOfASegmentIsOnTheDisk) {
  const auto has_segments = [&] {
    const std::string all = AllBytes();
    return all.find(SegmentBytes(NewKey(1), kLarge).substr(5000, 32)) != std::string::npos ||
           all.find(SegmentBytes(NewKey(101), 3000).substr(1000, 32)) != std::string::npos;
  };
  Open({});
  AddTurn(1);
  EXPECT_TRUE(has_segments());
  // Sealing the store afterwards removes them.
  Open(SealedWith("a"));
  EXPECT_EQ(store_->Reseal(Unsealed::kSeal)->segments, 2u);
  ASSERT_TRUE(store_->CollectSegments({.now = At(0), .remove_after = absl::ZeroDuration()}).ok());
  ASSERT_TRUE(store_->Compact().ok());
  EXPECT_FALSE(has_segments());
  EXPECT_TRUE(ReadSegments(1).ok());
  AddTurn(2);
  EXPECT_FALSE(AllBytes().find(SegmentBytes(NewKey(2), kLarge).substr(5000, 32)) !=
               std::string::npos);
}

TEST_F(SealedStoreTest, KeysAreChangedWithoutLosingASegment) {
  Open(SealedWith("a"));
  AddTurn(1);
  Open(SealedWith("ba"));
  AddTurn(2);
  EXPECT_TRUE(ReadSegments(2).ok()) << "the old key opens";
  EXPECT_THAT(Check(SealedWith("ba")), IsEmpty());
  EXPECT_THAT(Check(SealedWith("b")), SizeIs(2)) << "it is still needed";

  auto resealed = store_->Reseal();
  ASSERT_TRUE(resealed.ok()) << resealed.status();
  EXPECT_EQ(resealed->segments, 2u);
  EXPECT_THAT(resealed->faults, IsEmpty());
  EXPECT_EQ(store_->Reseal()->segments, 0u) << "there is nothing left to do";
  EXPECT_EQ(store_->Bytes().back().bytes, FileBytes());
  ASSERT_TRUE(store_->CollectSegments({.now = At(0), .remove_after = absl::ZeroDuration()}).ok());
  EXPECT_EQ(store_->Bytes().back().bytes, FileBytes());
  Open(SealedWith("b"));
  EXPECT_TRUE(ReadSegments(2).ok()) << "the old key is gone";
  EXPECT_THAT(Check(SealedWith("b")), IsEmpty());
  AddTurn(3);
  EXPECT_TRUE(ReadSegments(3).ok());
}

TEST_F(SealedStoreTest, ResealNamesSegmentsThatDoNotOpenAndGoesOn) {
  Open(SealedWith("a"));
  AddTurn(1);
  Open(SealedWith("b"));
  AddTurn(2);
  Open(SealedWith("cb"));
  const auto resealed = store_->Reseal();
  ASSERT_TRUE(resealed.ok()) << resealed.status();
  EXPECT_EQ(resealed->segments, 2u);
  EXPECT_THAT(resealed->faults, SizeIs(2));
  EXPECT_THAT(resealed->faults, Each(HasSubstr("'a'")));
  // A snapshot that is written again repairs them.
  const auto written = WriteAll(*store_, {{NewSpan(1, 0, {}), kLarge}, {NewFixed(101, 64), 3000}});
  ASSERT_TRUE(written.ok());
  ASSERT_TRUE(
      ApplyOne(
          *store_,
          AddSnapshot{
              "",
              {.turn = 1, .cache = "c", .position = 64, .span = NewKey(1), .fixed = NewKey(101)},
              *written,
              {}})
          .ok());
  EXPECT_TRUE(ReadSegments(2).ok());
}

// The server refuses them as well, because somebody without a key may have written them.
TEST_F(SealedStoreTest, ResealSealsUnsealedSegmentsOnlyOnRequest) {
  Open({});
  AddTurn(1);
  Open(SealedWith("a"));
  AddTurn(2);
  const auto refused = store_->Reseal();
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->segments, 0u);
  EXPECT_THAT(refused->faults, SizeIs(2));
  EXPECT_THAT(refused->faults, Each(HasSubstr("is not sealed")));
  EXPECT_EQ(ReadSegments(1).code(), absl::StatusCode::kDataLoss);
  const auto sealed = store_->Reseal(Unsealed::kSeal);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->segments, 2u);
  EXPECT_THAT(sealed->faults, IsEmpty());
  EXPECT_TRUE(ReadSegments(2).ok());
}

TEST_F(SealedStoreTest, ResealOpensSegmentsThatTheFirstKeySealed) {
  Open(SealedWith("a"));
  AddTurn(1);
  // Other bytes of the key with the same id.
  Open({.keys = *SealingKeys::Parse("a " + std::string(64, '7'), "test")});
  const auto other_key = store_->Reseal();
  ASSERT_TRUE(other_key.ok()) << other_key.status();
  EXPECT_EQ(other_key->segments, 0u);
  EXPECT_THAT(other_key->faults, SizeIs(2));
  // A changed byte in the last block.
  Open(SealedWith("a"));
  EXPECT_THAT(store_->Reseal()->faults, IsEmpty());
  const auto file = std::filesystem::directory_iterator(path_ + "/segments")->path();
  std::fstream change(file, std::ios::in | std::ios::out | std::ios::binary);
  const int byte = change.seekg(-20, std::ios::end).get();
  change.seekp(-20, std::ios::end).put(static_cast<char>(byte ^ 1)).flush();
  EXPECT_THAT(store_->Reseal()->faults, ElementsAre(HasSubstr(NewKey(1).ToString())));
}

TEST_F(SealedStoreTest, ResealNamesDamagedRows) {
  Open(SealedWith("a"));
  AddTurn(1);
  {
    const auto log = SqliteDatabase::Open(path_ + "/log.db", "");
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE((*log)->Execute("UPDATE segments SET bytes = bytes + 1 WHERE file IS NULL").ok());
  }
  const auto resealed = store_->Reseal();
  ASSERT_TRUE(resealed.ok()) << resealed.status();
  EXPECT_EQ(resealed->segments, 0u);
  EXPECT_THAT(resealed->faults, ElementsAre(HasSubstr("damaged")));
}

TEST_F(SealedStoreTest, DamageIsFoundWithAndWithoutKeys) {
  Open(SealedWith("a"));
  AddTurn(1);
  EXPECT_THAT(Check({}), IsEmpty()) << "the sealed bytes are as they were written";
  EXPECT_THAT(Check(SealedWith("a")), IsEmpty());
  EXPECT_THAT(Check(SealedWith("b")), SizeIs(2));
  const auto file = std::filesystem::directory_iterator(path_ + "/segments")->path();
  std::fstream change(file, std::ios::in | std::ios::out | std::ios::binary);
  const int byte = change.seekg(100'000).get();
  change.seekp(100'000).put(static_cast<char>(byte ^ 1)).flush();
  EXPECT_THAT(Check({}), ElementsAre(HasSubstr("checksum differs")));
  EXPECT_THAT(Check(SealedWith("a")), ElementsAre(HasSubstr(NewKey(1).ToString())));
  EXPECT_EQ(ReadAll(*store_, "", NewKey(1)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SealedStoreTest, TheBytesOfASealedStoreAreCounted) {
  Open(SealedWith("a", Compression::kZstd));
  AddTurn(1);
  AddTurn(2);
  EXPECT_EQ(store_->Bytes().back().bytes, FileBytes());
  EXPECT_GT(FileBytes(), 2 * kLarge);
  Open(SealedWith("a"));
  EXPECT_EQ(store_->Bytes().back().bytes, FileBytes());
}

}  // namespace
}  // namespace longstream::store
