// Files of packed weights: the reader gets the data that were written, or the file is refused.
#include "backends/packing/packed_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::HasSubstr;

constexpr WeightTotals kTotals = {123, 456};

std::vector<std::byte> Data(size_t bytes, uint8_t seed = 1) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return data;
}

// Returns the data of the file. Throws PackedFileError.
std::vector<std::byte> ReadData(const std::string& path, const Executor& executor = Executor()) {
  const auto file = PackedFile::Open(path);
  if (file == nullptr) return {};
  std::vector<std::byte> data(file->data_bytes());
  file->Read(data, executor);
  return data;
}

std::string Problem(const std::string& path) {
  try {
    ReadData(path);
    return "";
  } catch (const PackedFileError& error) {
    return error.what();
  }
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class PackedFileTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::byte>& data, const std::string& key = "the key",
             const Executor& executor = Executor()) const {
    WritePackedFile(path_, key, kTotals, data, executor);
  }
  std::string WriteProblem() const {
    try {
      Write(Data(10));
      return "";
    } catch (const PackedFileError& error) {
      return error.what();
    }
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.string() + "/w.packed";
};

TEST_F(PackedFileTest, HoldsWhatWasWritten) {
  constexpr size_t kChunk = size_t{4} << 20;
  ThreadPool pool(3);
  for (const size_t bytes : {size_t{1}, size_t{64}, kChunk - 1, kChunk, 2 * kChunk + 7}) {
    for (const std::string& key : {std::string(), std::string("a\nb"), std::string(5000, 'k')}) {
      const std::vector<std::byte> data = Data(bytes);
      Write(data, key, pool.AsExecutor());
      const auto file = PackedFile::Open(path_);
      ASSERT_NE(file, nullptr);
      EXPECT_EQ(file->key(), key);
      EXPECT_EQ(file->totals().num_parameters, kTotals.num_parameters);
      EXPECT_EQ(file->totals().fingerprint, kTotals.fingerprint);
      EXPECT_TRUE(ReadData(path_) == data) << bytes;
      EXPECT_TRUE(ReadData(path_, pool.AsExecutor()) == data) << bytes;
    }
  }
}

TEST_F(PackedFileTest, IsThereOrNot) {
  EXPECT_EQ(PackedFile::Open(path_), nullptr);
  EXPECT_EQ(PackedFile::Open(directory_.string() + "/no/such"), nullptr);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(Problem(path_), "is no regular file");
  const std::string fifo = directory_.string() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Problem(fifo), "is no regular file");
}

TEST_F(PackedFileTest, EveryFlippedByteIsSeen) {
  Write(Data(1000));
  const std::string good = TextOf(path_);
  ASSERT_EQ(good.size(), 4096u + 1000);
  const int file = open(path_.c_str(), O_WRONLY);
  for (size_t i = 0; i < good.size(); ++i) {
    const char flipped = static_cast<char>(good[i] ^ (1 << i % 8));
    ASSERT_EQ(pwrite(file, &flipped, 1, static_cast<off_t>(i)), 1);
    EXPECT_NE(Problem(path_), "") << i;
    ASSERT_EQ(pwrite(file, &good[i], 1, static_cast<off_t>(i)), 1);
  }
  close(file);
  EXPECT_EQ(Problem(path_), "");
}

TEST_F(PackedFileTest, EveryOtherLengthIsSeen) {
  Write(Data(300));
  const size_t good = TextOf(path_).size();
  for (size_t length = good + 100; length > 0; --length) {
    std::filesystem::resize_file(path_, length - 1);
    EXPECT_EQ(Problem(path_).empty(), length - 1 == good) << length - 1;
  }
}

TEST_F(PackedFileTest, DamageIsNamed) {
  directory_.Write("w.packed", "something else");
  EXPECT_EQ(Problem(path_), "is no packed file");
  Write(Data(5000));
  std::string text = TextOf(path_);
  text[4096 + 4999] ^= 1;
  directory_.Write("w.packed", text);
  EXPECT_EQ(Problem(path_), "is damaged in its data");
  text[60] ^= 1;
  directory_.Write("w.packed", text);
  EXPECT_EQ(Problem(path_), "is damaged in front of its data");
  text[8] = 2;
  directory_.Write("w.packed", text);
  EXPECT_EQ(Problem(path_), "has the format 2, expected 1");
}

// The file is cut after it was opened.
TEST_F(PackedFileTest, EndsWhileItIsRead) {
  const std::vector<std::byte> data = Data(size_t{9} << 20);
  Write(data);
  const auto file = PackedFile::Open(path_);
  std::filesystem::resize_file(path_, size_t{6} << 20);
  std::vector<std::byte> memory(data.size());
  EXPECT_THROW(file->Read(memory, Executor()), PackedFileError);
}

TEST_F(PackedFileTest, IsReplacedAsAWhole) {
  Write(Data(5000, 1));
  const auto before = PackedFile::Open(path_);
  Write(Data(9000, 2));
  EXPECT_TRUE(ReadData(path_) == Data(9000, 2));
  std::vector<std::byte> memory(5000);
  before->Read(memory, Executor());
  EXPECT_TRUE(memory == Data(5000, 1));
}

// A process that died while writing has left a file behind.
TEST_F(PackedFileTest, AnUnfinishedFileIsUsedAgain) {
  directory_.Write("w.packed.new", std::string(100'000, 'x'));
  Write(Data(10));
  EXPECT_TRUE(ReadData(path_) == Data(10));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(PackedFileTest, OneProcessWritesAtATime) {
  Write(Data(20));
  const int other = open((path_ + ".new").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_EQ(WriteProblem(), "is being written by another process");
  EXPECT_TRUE(std::filesystem::exists(path_ + ".new"));
  EXPECT_TRUE(ReadData(path_) == Data(20));
  close(other);
  EXPECT_EQ(WriteProblem(), "");
  EXPECT_TRUE(ReadData(path_) == Data(10));
}

TEST_F(PackedFileTest, WhereNothingCanBeWritten) {
  const std::string good = path_;
  directory_.Write("file", "");
  EXPECT_THROW(WritePackedFile("/proc/w.packed", "", kTotals, Data(10), Executor()),
               PackedFileError);
  EXPECT_THROW(WritePackedFile(directory_.string() + "/file/w", "", kTotals, Data(10), Executor()),
               PackedFileError);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(WriteProblem(), HasSubstr("cannot be renamed: Is a directory"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

// A file size limit stands for a full disk: the same calls fail.
TEST_F(PackedFileTest, AFullDiskLeavesWhatWasThere) {
  Write(Data(20));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string problem = WriteProblem();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_THAT(problem, HasSubstr("cannot be written: File too large"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  EXPECT_TRUE(ReadData(path_) == Data(20));
}

// Processes write and read at the same time. Each finds no file or a whole one.
TEST_F(PackedFileTest, ProcessesAtTheSameTime) {
  const std::vector<std::byte> data = Data(300'000);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int round = 0; round < 40; ++round) {
        try {
          Write(data);
        } catch (const PackedFileError& error) {
          if (std::strstr(error.what(), "another process") == nullptr) _exit(1);
        }
        const std::string problem = Problem(path_);
        const std::vector<std::byte> read = problem.empty() ? ReadData(path_) : data;
        if (!problem.empty() || (!read.empty() && read != data)) _exit(2);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_TRUE(ReadData(path_) == data);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

}  // namespace
}  // namespace longstream
