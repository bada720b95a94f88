// Safetensors files: the contents of a valid one, and the error for each kind of damage.
#include "backends/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::StartsWith;

std::vector<StoredTensor> Parse(const std::string& bytes) {
  return ParseSafetensors(AsBytes(bytes), bytes.size(), "m.safetensors");
}

// A valid file: 8 bytes of length, a header, 24 bytes of data.
std::string GoodFile() {
  return SafetensorsBytes({CountingTensor("a", {2, 2}), CountingTensor("b", {2}, 10.0f)});
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirData) {
  const std::string bytes = SafetensorsBytes(
      R"({"__metadata__": {"format": "pt"},
          "late": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]},
          "early": {"data_offsets": [0, 8], "shape": [], "dtype": "I64"}}  )",
      "01234567abcd");
  const std::vector<StoredTensor> tensors = Parse(bytes);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "early");
  EXPECT_EQ(tensors[0].type_name, "I64");
  EXPECT_EQ(tensors[0].type, std::nullopt);
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(tensors[1].name, "late");
  EXPECT_EQ(tensors[1].type, DType::kBF16);
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(bytes.substr(tensors[1].offset, tensors[1].num_bytes), "abcd");
}

TEST(SafetensorsTest, EveryElementTypeHasItsSize) {
  const struct {
    const char* name;
    int bytes;
    std::optional<DType> type;
  } types[] = {{"BOOL", 1, {}},         {"U8", 1, {}},
               {"I8", 1, {}},           {"F8_E4M3", 1, {}},
               {"F8_E5M2", 1, {}},      {"F8_E8M0", 1, {}},
               {"I16", 2, {}},          {"U16", 2, {}},
               {"F16", 2, DType::kF16}, {"BF16", 2, DType::kBF16},
               {"I32", 4, {}},          {"U32", 4, {}},
               {"F32", 4, DType::kF32}, {"I64", 8, {}},
               {"U64", 8, {}},          {"F64", 8, {}},
               {"C64", 8, {}}};
  for (const auto& type : types) {
    SCOPED_TRACE(type.name);
    const std::string bytes = SafetensorsBytes(
        {{"x", type.name, {3}, std::string(static_cast<size_t>(3 * type.bytes), 'x')}});
    EXPECT_EQ(Parse(bytes).at(0).type, type.type);
  }
}

TEST(SafetensorsTest, EmptyTensorsAndNamesOfAnyLanguage) {
  const std::string bytes = SafetensorsBytes({{"слой.0/重み \\u00e9", "F32", {0, 7}, ""},
                                              CountingTensor("b", {1}),
                                              {"end", "F32", {0}, ""}});
  const std::vector<StoredTensor> tensors = Parse(bytes);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "слой.0/重み é");
  EXPECT_EQ(tensors[0].num_bytes, 0u);
  EXPECT_EQ(tensors[2].name, "end");
}

TEST(SafetensorsTest, AFileWithoutTensors) {
  EXPECT_TRUE(Parse(SafetensorsBytes("{}", "")).empty());
}

TEST(SafetensorsTest, DataNeedNotBeAligned) {
  const std::string bytes = SafetensorsBytes({CountingTensor("a", {2}, 1.5f)}, 3);
  float second = 0.0f;
  std::memcpy(&second, bytes.data() + Parse(bytes).at(0).offset + 4, 4);
  EXPECT_EQ(second, 2.5f);
}

std::string Repeated(int count, std::string_view text) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

// The header of one tensor.
std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
         offsets + "}}";
}

// The header of two tensors of four bytes each.
std::string TwoEntries(const std::string& first, const std::string& second) {
  return R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": )" + first +
         R"(}, "b": {"dtype": "U8", "shape": [4], "data_offsets": )" + second + "}}";
}

struct BadHeader {
  const char* name;
  std::string header;
  std::string problem;  // after "m.safetensors: header: "
};

const BadHeader kBadHeaders[] = {
    {"EmptyHeader", "", "no valid JSON: "},
    {"NoJson", "version https://git-lfs", "no valid JSON: "},
    {"CutShort", R"({"a": {"dtype": "F32")", "no valid JSON: "},
    {"TrailingText", "{} x", "no valid JSON: "},
    {"BadUtf8", "{\"a\xff\": 1}", "no valid JSON: "},
    {"List", "[]", "unexpected list"},
    {"Number", "5", "unexpected number 5"},
    {"Null", "null", "unexpected null"},
    {"TensorIsNumber", R"({"a": 5})", "unexpected number 5 in tensor \"a\""},
    {"TensorIsList", R"({"a": []})", "unexpected list in tensor \"a\""},
    {"TensorIsString", R"({"a": "F32"})", "unexpected string in tensor \"a\""},
    {"TensorIsNull", R"({"a": null})", "unexpected null in tensor \"a\""},
    {"ListBomb", R"({"a": {"shape": )" + std::string(1 << 20, '[') + "}}",
     "unexpected list in tensor \"a\""},
    {"ObjectBomb", Repeated(1 << 16, R"({"a":)"), "unknown key \"a\" in tensor \"a\""},
    {"ListWithoutEnd", R"({"a": {"shape": [0)" + Repeated(1 << 20, ",0"),
     "more than 16 dimensions in tensor \"a\""},
    {"MetadataOfNumbers", R"({"__metadata__": {"step": 5}})",
     "unexpected number 5 in __metadata__"},
    {"MetadataBehindATensor", R"({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
                   "__metadata__": {"step": 5}})",
     "unexpected number 5 in __metadata__"},
    {"TensorBehindMetadata", R"({"__metadata__": {"step": "5"}, "a": 5})",
     "unexpected number 5 in tensor \"a\""},
    {"MetadataNested", R"({"__metadata__": {"a": {}}})", "unexpected object in __metadata__"},
    {"DuplicateTensor", R"({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
                                      "a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})",
     "the tensor \"a\" is there twice"},
    {"DuplicateKey", R"({"a": {"dtype": "F32", "dtype": "F16"}})",
     "dtype is there twice in tensor \"a\""},
    {"UnknownKey", R"({"a": {"strides": [1]}})", "unknown key \"strides\" in tensor \"a\""},
    {"NoType", R"({"a": {"shape": [0], "data_offsets": [0, 0]}})",
     "dtype is missing in tensor \"a\""},
    {"NoShape", R"({"a": {"dtype": "F32", "data_offsets": [0, 0]}})",
     "shape is missing in tensor \"a\""},
    {"NoOffsets", R"({"a": {"dtype": "F32", "shape": [0]}})",
     "data_offsets is missing in tensor \"a\""},
    {"ControlCharactersInName", R"({"a\nb\u0007": 5})", "unexpected number 5 in tensor \"a?b?\""},
    {"TypeNumber", R"({"a": {"dtype": 4}})", "unexpected number 4 in tensor \"a\""},
    {"ShapeNegative", Entry("F32", "[-1]", "[0, 4]"), "unexpected -1 in tensor \"a\""},
    {"ShapeFraction", Entry("F32", "[1.0]", "[0, 4]"), "unexpected number 1.0 in tensor \"a\""},
    {"ShapeNested", Entry("F32", "[[1]]", "[0, 4]"), "unexpected list in tensor \"a\""},
    {"ShapeOfStrings", Entry("F32", R"(["1"])", "[0, 4]"), "unexpected string in tensor \"a\""},
    {"ShapeString", Entry("F32", R"("1")", "[0, 4]"), "unexpected string in tensor \"a\""},
    {"ExtentOver63Bits", Entry("F32", "[9223372036854775808]", "[0, 4]"),
     "unexpected number 9223372036854775808 in tensor \"a\""},
    {"ExtentOver64Bits", Entry("F32", "[99999999999999999999]", "[0, 4]"),
     "unexpected number 99999999999999999999 in tensor \"a\""},
    {"OneOffset", Entry("F32", "[1]", "[0]"), "fewer than 2 data_offsets in tensor \"a\""},
    {"ThreeOffsets", Entry("F32", "[1]", "[0, 4, 4]"), "more than 2 data_offsets in tensor \"a\""},
};

struct BadTensor {
  const char* name;
  std::string header;
  std::string data;
  std::string problem;  // after "m.safetensors: "
};

const BadTensor kBadTensors[] = {
    {"TypeUnknown", Entry("F12", "[1]", "[0, 4]"), "1234",
     "tensor \"a\" has the unknown dtype \"F12\""},
    {"ShapeOverflows", Entry("F32", "[4294967296, 4294967296, 4]", "[0, 0]"), "",
     "tensor \"a\" has a shape whose bytes exceed 64 bits"},
    {"ShapeOverflowsBeforeZero", Entry("U8", "[9223372036854775807, 4, 0]", "[0, 0]"), "",
     "tensor \"a\" has a shape whose bytes exceed 64 bits"},
    {"OffsetsReversed", Entry("F32", "[1]", "[4, 0]"), "1234",
     "tensor \"a\" at bytes [4, 0), expected a range within the 4 bytes of data"},
    {"PastTheEnd", Entry("F32", "[2]", "[0, 8]"), "1234567",
     "tensor \"a\" at bytes [0, 8), expected a range within the 7 bytes of data"},
    {"FarPastTheEnd", Entry("U8", "[1]", "[9223372036854775806, 9223372036854775807]"), "1234567",
     "tensor \"a\" at bytes [9223372036854775806, 9223372036854775807), expected a range within "
     "the 7 bytes of data"},
    {"ShapeAndBytesDisagree", Entry("F32", "[1, 2]", "[0, 4]"), "1234",
     "tensor \"a\" of type F32 and shape [1, 2] takes 8 bytes, found 4"},
    {"ScalarOfTwo", Entry("U8", "[]", "[0, 2]"), "12",
     "tensor \"a\" of type U8 and shape [] takes 1 bytes, found 2"},
    {"BytesAfterTheTensors", Entry("U8", "[4]", "[0, 4]"), "12345",
     "the tensors end at byte 4 of the data, found 5 bytes"},
    {"GapAtTheStart", Entry("U8", "[4]", "[1, 5]"), "12345",
     "tensor \"a\" leaves a gap after the tensor before it: begins at byte 1 of the data, expected "
     "0"},
    {"GapBetween", TwoEntries("[0, 4]", "[6, 10]"), "1234567890",
     "tensor \"b\" leaves a gap after the tensor before it: begins at byte 6 of the data, expected "
     "4"},
    {"Overlap", TwoEntries("[0, 4]", "[3, 7]"), "1234567",
     "tensor \"b\" overlaps the tensor before it: begins at byte 3 of the data, expected 4"},
    {"SameBytesTwice", TwoEntries("[0, 4]", "[0, 4]"), "1234",
     "tensor \"b\" overlaps the tensor before it: begins at byte 0 of the data, expected 4"},
    {"DataWithoutTensors", "{}", "1234", "the tensors end at byte 0 of the data, found 4 bytes"},
};

TEST(SafetensorsTest, DamageIsDataLoss) {
  for (const BadHeader& bad : kBadHeaders) {
    SCOPED_TRACE(bad.name);
    ExpectError(LS_DATA_LOSS, StartsWith("m.safetensors: header: " + bad.problem),
                [&] { Parse(SafetensorsBytes(bad.header, "1234")); });
  }
  for (const BadTensor& bad : kBadTensors) {
    SCOPED_TRACE(bad.name);
    ExpectError(LS_DATA_LOSS, StartsWith("m.safetensors: " + bad.problem),
                [&] { Parse(SafetensorsBytes(bad.header, bad.data)); });
  }
}

TEST(SafetensorsTest, WhatIsNoSafetensorsFile) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "expected a header length of 8 bytes, found a file of 0 bytes"},
      {{"\x01\xe1\xf5\x05\0\0\0\0", 8}, "header of 100000001 bytes, expected at most 100000000"},
      {std::string(8, '\xff') + "{}",
       "header of 18446744073709551615 bytes, expected at most 100000000"},
      {{"\x03\0\0\0\0\0\0\0{}", 10}, "header of 3 bytes, found a file of 10 bytes"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
       "expected the file itself, found a pointer of Git LFS to it"},
  };
  for (const auto& [bytes, problem] : cases) {
    ExpectError(LS_DATA_LOSS, "m.safetensors: " + std::string(problem),
                [&bytes = bytes] { Parse(bytes); });
  }
}

// A valid file cut anywhere is refused and never read past its end.
TEST(SafetensorsTest, TruncationAnywhereIsDataLoss) {
  const std::string good = GoodFile();
  ASSERT_EQ(Parse(good).size(), 2u);
  for (size_t length = 0; length < good.size(); ++length) {
    SCOPED_TRACE(length);
    const std::vector<char> cut(good.begin(), good.begin() + static_cast<long>(length));
    ExpectError(LS_DATA_LOSS, StartsWith("m.safetensors: "), [&cut] {
      ParseSafetensors(std::as_bytes(std::span(cut)), cut.size(), "m.safetensors");
    });
  }
}

TEST(SafetensorsFileTest, ReadsAFile) {
  TemporaryDirectory directory;
  const SafetensorsFile file(directory.Write("m.safetensors", GoodFile()));
  ASSERT_EQ(file.tensors().size(), 2u);
  float value = 0.0f;
  file.Read(file.tensors()[1].offset, std::as_writable_bytes(std::span(&value, 1)), Executor());
  EXPECT_EQ(value, 10.0f);
}

// The header is longer than the first read, and the data have several pieces.
TEST(SafetensorsFileTest, ReadsPiecesOnAllThreads) {
  constexpr int64_t kNumbers = 700'001;
  TemporaryDirectory directory;
  const SafetensorsFile file(directory.Write(
      "m.safetensors",
      SafetensorsBytes({CountingTensor("a", {1}), CountingTensor("b", {kNumbers})}, 100'000)));
  ThreadPool pool(3);
  std::vector<float> numbers(kNumbers);
  file.Read(file.tensors()[1].offset, std::as_writable_bytes(std::span(numbers)),
            pool.AsExecutor());
  for (int64_t i = 0; i < kNumbers; ++i) ASSERT_EQ(numbers[i], static_cast<float>(i));
}

TEST(SafetensorsFileTest, ReadsPiecesThatLieApart) {
  TemporaryDirectory directory;
  const SafetensorsFile file(
      directory.Write("m.safetensors", SafetensorsBytes({CountingTensor("a", {1000, 700})})));
  const uint64_t begin = file.tensors()[0].offset;
  ThreadPool pool(3);
  for (const int64_t columns : {1, 3, 699, 700}) {
    std::vector<float> numbers(static_cast<size_t>(1000 * columns));
    const int64_t first = 700 - columns;
    file.ReadPieces(begin + static_cast<uint64_t>(first) * 4, 700 * 4,
                    static_cast<size_t>(columns) * 4, std::as_writable_bytes(std::span(numbers)),
                    pool.AsExecutor());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto [row, column] = std::div(static_cast<int64_t>(i), columns);
      ASSERT_EQ(numbers[i], static_cast<float>(row * 700 + first + column)) << columns;
    }
  }
  std::vector<std::byte> beyond(8);
  ExpectError(LS_DATA_LOSS, ::testing::HasSubstr("was shortened"),
              [&] { file.ReadPieces(begin, 1000 * 700 * 4, 4, beyond, Executor()); });
}

// If the file were mapped, this would raise a signal.
TEST(SafetensorsFileTest, AFileThatIsShortenedIsDataLoss) {
  TemporaryDirectory directory;
  const std::string path = directory.Write("m.safetensors", GoodFile());
  const SafetensorsFile file(path);
  const uint64_t size = GoodFile().size();
  std::filesystem::resize_file(path, size - 1);
  std::vector<std::byte> bytes(8);
  file.Read(file.tensors()[0].offset, bytes, Executor());
  ExpectError(
      LS_DATA_LOSS,
      path + ": was shortened while it was read, expected " + std::to_string(size) + " bytes",
      [&] { file.Read(file.tensors()[1].offset, bytes, Executor()); });
}

TEST(SafetensorsFileTest, WritersAreNoticedAndReplacementsAreNot) {
  TemporaryDirectory directory;
  const std::string path = directory.Write("m.safetensors", GoodFile());
  const SafetensorsFile file(path);
  file.RequireUnwritten();
  std::filesystem::rename(directory.Write("new", GoodFile()), path);
  file.RequireUnwritten();  // the open file is the old one

  const SafetensorsFile replaced(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // times advance in steps
  directory.Write("m.safetensors", GoodFile());
  ExpectError(LS_UNAVAILABLE, StartsWith(path + ": was written to while it was read, expected "),
              [&] { replaced.RequireUnwritten(); });
}

TEST(SafetensorsFileTest, DamagedFilesNameTheirPath) {
  TemporaryDirectory directory;
  const std::string path = directory.Write("m.safetensors", "");
  ExpectError(LS_DATA_LOSS, path + ": expected a header length of 8 bytes, found a file of 0 bytes",
              [&path] { SafetensorsFile file(path); });
}

TEST(SafetensorsFileTest, WhatIsNoFile) {
  ExpectError(LS_NOT_FOUND, "/nowhere/m.safetensors: cannot be opened: No such file or directory",
              [] { SafetensorsFile file("/nowhere/m.safetensors"); });
  TemporaryDirectory directory;
  // Nobody writes to this FIFO, so a plain open would wait for ever.
  const std::string fifo = directory.string() + "/model.safetensors";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ExpectError(LS_NOT_FOUND, fifo + ": is no regular file", [&] { SafetensorsFile file(fifo); });
  ExpectError(LS_NOT_FOUND, directory.string() + ": is no regular file",
              [&directory] { SafetensorsFile file(directory.string()); });
}

TEST(SafetensorsFileTest, AFailedOpenLeavesNoDescriptor) {
  TemporaryDirectory directory;
  const std::string path = directory.Write("m.safetensors", "damaged!");
  const auto count_descriptors = [] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  };
  const size_t before = count_descriptors();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(SafetensorsFile file(path), BackendError);
  }
  EXPECT_EQ(count_descriptors(), before);
}

}  // namespace
}  // namespace longstream
