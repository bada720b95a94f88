// A model opened from the packed weights of an earlier start, and every case in which they must not
// be used: the logits are always those of the checkpoint on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/architectures/placement/dense_plan.h"
#include "backends/packing/load_weights.h"
#include "backends/runtime/model.h"
#include "kernels/core/pinned_isa.h"
#include "kernels/core/thread_pool.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/bench/plans/random_checkpoint.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kConfig = R"({"model_type": "qwen3", "hidden_size": 96,
  "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 300, "max_position_embeddings": 512)";

struct Opened {
  std::vector<float> logits;
  uint64_t fingerprint = 0;
  uint64_t num_parameters = 0;
  uint64_t weight_bytes = 0;
  std::vector<std::string> log;
  int32_t severity = 0;  // of the last line
  int packed = 0;        // calls of the pack op for the model

  bool operator==(const Opened& other) const {
    return logits.size() == other.logits.size() &&
           std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0 &&
           fingerprint == other.fingerprint && num_parameters == other.num_parameters &&
           weight_bytes == other.weight_bytes;
  }
};

// Only packs of a weight with the vocabulary's rows are counted, because other packs serve the hash
// of the layout.
constexpr int64_t kVocabulary = 300;
int num_packed = 0;
PackFunction counted_pack = nullptr;

void CountAndPack(const Executor& executor, const PackArgs& args) {
  if (args.n == kVocabulary) ++num_packed;
  counted_pack(executor, args);
}

class PackedStartTest : public ::testing::Test {
 protected:
  PackedStartTest() { WriteCheckpoint(""); }

  // `more`: more keys of the config. Checkpoints of the same sizes differ only in their weights.
  void WriteCheckpoint(const std::string& more) const {
    const std::string config = kConfig + more + "}";
    WriteRandomCheckpoint(DensePlan(Config(config.c_str(), "config"), LoadOptions()), config,
                          model_.string());
  }

  Opened Open(const std::string& options, const OpTable& ops = DeviceOps(),
              const std::string& directory = "") const {
    const BackendDefinition definition = {"dense", "1", DenseFit, DensePlan};
    const std::string path = directory.empty() ? model_.string() : directory;
    const std::string json = "{" + options + "}";
    Opened opened;
    ls_host host{};
    host.context = &opened;
    host.num_threads = 1;
    host.log = [](void* context, int32_t severity, const char* text) {
      static_cast<Opened*>(context)->log.emplace_back(text);
      static_cast<Opened*>(context)->severity = severity;
    };
    ls_model_options open{};
    open.directory = path.c_str();
    open.options = json.c_str();
    open.max_batch_tokens = 64;
    open.max_batch_sequences = 1;
    open.host = &host;
    OpTable counting = ops;
    counted_pack = ops.pack;
    counting.pack = CountAndPack;
    num_packed = 0;
    const auto model = OpenModel(definition, open, counting);
    opened.packed = num_packed;
    opened.fingerprint = model->info().fingerprint;
    opened.num_parameters = model->info().num_parameters;
    opened.weight_bytes = model->weights().bytes;
    const auto sequence = CreateReserved(*model, 16);
    opened.logits = Prefill(*model, *sequence, RandomTokens(9, kVocabulary));
    return opened;
  }

  std::string InCache(const std::string& options = "") const {
    return R"("packed_cache": ")" + cache_.string() + "\"" + (options.empty() ? "" : ", ") +
           options;
  }

  static std::vector<std::string> FilesIn(const TemporaryDirectory& directory) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      if (entry.path().filename().string().find(".packed") != std::string::npos) {
        files.push_back(entry.path().string());
      }
    }
    return files;
  }

  // The path of the only file of packed weights.
  std::string PackedPath() const {
    const std::vector<std::string> files = FilesIn(cache_);
    EXPECT_THAT(files, SizeIs(1));
    return files.empty() ? "" : files.front();
  }

  // The next start logs a sentence that matches `reason`, packs, and writes the file anew; the
  // start after that uses it. Both have the logits of a model without such a file.
  template <typename Reason>
  void ExpectPackedAnew(const Reason& reason, const std::string& options = "") const {
    const Opened expected =
        Open(R"("packed_cache": "off")" + (options.empty() ? "" : ", " + options));
    const Opened next = Open(InCache(options));
    EXPECT_THAT(next.log, ElementsAre(AllOf(HasSubstr("not used"), reason), HasSubstr("written")));
    EXPECT_GT(next.packed, 0);
    EXPECT_TRUE(next == expected);
    const Opened after = Open(InCache(options));
    EXPECT_THAT(after.log, ElementsAre(EndsWith("are used")));
    EXPECT_EQ(after.packed, 0);
    EXPECT_TRUE(after == expected);
  }

  const TemporaryDirectory model_;
  const TemporaryDirectory cache_;
};

TEST_F(PackedStartTest, TheSecondStartPacksNothing) {
  for (const char* isa : kIsaNames) {
    const OpTable* ops = OpsFor(isa);
    if (ops == nullptr) continue;  // baseline is always there
    for (const char* type : {"auto", "f32", "bf16", "int8", "int4"}) {
      SCOPED_TRACE(std::string(isa) + " " + type);
      const std::string options = R"("weights": ")" + std::string(type) + "\"";
      const Opened expected = Open(R"("packed_cache": "off", )" + options, *ops);
      EXPECT_THAT(expected.log, IsEmpty());
      const Opened first = Open(InCache(options), *ops);
      EXPECT_GT(first.packed, 0);
      EXPECT_THAT(first.log, ElementsAre(HasSubstr(".packed are written, ")));
      const Opened second = Open(InCache(options), *ops);
      EXPECT_EQ(second.packed, 0);
      EXPECT_THAT(second.log, ElementsAre(EndsWith(".packed are used")));
      EXPECT_TRUE(first == expected);
      EXPECT_TRUE(second == expected);
    }
  }
}

// The golden checkpoints have every kind of block: tables, constants, biases, gates. Some have
// several shards.
TEST_F(PackedStartTest, EveryGoldenCheckpoint) {
  constexpr int kPacksOfLayout = 8;  // packs of every start, to hash the layout
  static int calls;
  counted_pack = DeviceOps().pack;
  OpTable ops = DeviceOps();
  ops.pack = [](const Executor& executor, const PackArgs& args) {
    ++calls;
    counted_pack(executor, args);
  };
  ASSERT_FALSE(GoldenDirectories().empty());
  for (const std::string& name : GoldenDirectories()) {
    SCOPED_TRACE(name);
    const auto open = [&](const std::string& options) {
      calls = 0;
      return OpenGoldenCase(name, options, ops);
    };
    const auto expected = open(R"("packed_cache": "off")");
    const auto first = open(InCache());
    EXPECT_GT(calls, kPacksOfLayout);
    const auto second = open(InCache());
    EXPECT_EQ(calls, kPacksOfLayout);
    for (const Model* model : {first.get(), second.get()}) {
      EXPECT_EQ(model->info().fingerprint, expected->info().fingerprint);
      EXPECT_EQ(model->info().num_parameters, expected->info().num_parameters);
      ASSERT_EQ(model->weights().bytes, expected->weights().bytes);
      EXPECT_EQ(std::memcmp(model->weights().storage[0].get(), expected->weights().storage[0].get(),
                            expected->weights().bytes),
                0);
    }
    const std::vector<int32_t> tokens = ReadGoldenCase(name).tokens;
    const auto logits = [&](Model& model) {
      const auto sequence = CreateReserved(model, 16);
      return Prefill(model, *sequence, std::span(tokens).first(9));
    };
    EXPECT_EQ(logits(*second), logits(*expected));
  }
}

TEST_F(PackedStartTest, ThreadsReadTheSame) {
  Open(InCache());
  const std::string config = std::string(kConfig) + "}";
  const ModelSpec spec = DensePlan(Config(config.c_str(), "config"), LoadOptions());
  const LoadOptions options(("{" + InCache() + "}").c_str());
  std::vector<std::string> log;
  const auto load = [&](const Executor& executor) {
    return LoadWeights(spec, Checkpoint(model_.string()), options, DeviceOps(), executor,
                       HostMemory(),
                       [&](int32_t, const std::string& line) { log.push_back(line); });
  };
  ThreadPool pool(3);
  const ModelWeights one = load(Executor());
  const ModelWeights three = load(pool.AsExecutor());
  EXPECT_THAT(log, ElementsAre(EndsWith("are used"), EndsWith("are used")));
  ASSERT_EQ(one.bytes, three.bytes);
  EXPECT_EQ(std::memcmp(one.storage[0].get(), three.storage[0].get(), one.bytes), 0);
}

TEST_F(PackedStartTest, OptionsThatDecideHaveFilesOfTheirOwn) {
  Open(InCache(R"("weights": "int8")"));
  Open(InCache(R"("weights": "int4")"));
  EXPECT_THAT(FilesIn(cache_), SizeIs(2));
  EXPECT_EQ(Open(InCache(R"("weights": "int8")")).packed, 0);
  EXPECT_EQ(Open(InCache(R"("weights": "int4")")).packed, 0);
  // Options that do not decide the weights share one file.
  EXPECT_EQ(Open(InCache(R"("weights": "int4", "cache": "int8", "context_limit": 100)")).packed, 0);
  EXPECT_THAT(FilesIn(cache_), SizeIs(2));
}

TEST_F(PackedStartTest, CheckpointsOfOneShapeShareADirectory) {
  const Opened first = Open(InCache());
  const TemporaryDirectory other;
  std::filesystem::copy(model_.path(), other.path());
  const Opened second = Open(InCache(), DeviceOps(), other.string());
  EXPECT_GT(second.packed, 0);
  EXPECT_THAT(FilesIn(cache_), SizeIs(2));
  EXPECT_EQ(Open(InCache()).packed, 0);
  EXPECT_EQ(Open(InCache(), DeviceOps(), other.string()).packed, 0);
}

TEST_F(PackedStartTest, DamageAndTruncation) {
  Open(InCache());
  const std::string path = PackedPath();
  const auto bytes = std::filesystem::file_size(path);
  for (const uint64_t place : {uint64_t{4}, uint64_t{70}, bytes / 2, bytes - 1}) {
    SCOPED_TRACE(place);
    {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(static_cast<std::streamoff>(place));
      const char old = static_cast<char>(file.get());
      file.seekp(static_cast<std::streamoff>(place));
      file.put(static_cast<char>(old ^ 16));
    }
    ExpectPackedAnew(HasSubstr("the file is "));
  }
  for (const uint64_t length : {uint64_t{0}, uint64_t{100}, bytes - 1}) {
    SCOPED_TRACE(length);
    std::filesystem::resize_file(path, length);
    ExpectPackedAnew(HasSubstr("the file is "));
  }
}

// The file is undamaged, but its key names another version, or another layout.
TEST_F(PackedStartTest, AnotherVersionOrLayout) {
  Open(InCache());
  const std::string path = PackedPath();
  for (const std::string line : {"longstream ", "layout "}) {
    const auto file = PackedFile::Open(path);
    std::string key = file->key();
    char& last = key[key.find('\n', key.find(line)) - 1];
    last = last == '7' ? '8' : '7';
    std::vector<std::byte> data(file->data_bytes());
    file->Read(data, Executor());
    data[data.size() / 2] ^= std::byte{1};  // no model may use this change
    WritePackedFile(path, key, file->totals(), data, Executor());
    ExpectPackedAnew(HasSubstr("expected '" + line));
  }
}

TEST_F(PackedStartTest, TheCheckpointIsReplaced) {
  Open(InCache());
  const std::string file = model_.string() + "/model.safetensors";
  const auto flip = [&](const std::string& path) {
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto place = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
    stream.seekg(place);
    const char old = static_cast<char>(stream.get());
    stream.seekp(place);
    stream.put(static_cast<char>(old ^ 1));
  };
  // The checkpoint's file is replaced: a file of the same size, with the old file's time, is
  // renamed to its path.
  struct stat before = {};
  ASSERT_EQ(stat(file.c_str(), &before), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::filesystem::copy_file(file, file + ".x");
  flip(file + ".x");
  std::filesystem::last_write_time(file + ".x", std::filesystem::last_write_time(file));
  std::filesystem::rename(file + ".x", file);
  ExpectPackedAnew(HasSubstr("expected 'file \"model.safetensors\""));
  // The checkpoint's file is written in place.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  flip(file);
  ExpectPackedAnew(HasSubstr("expected 'file \"model.safetensors\""));
}

TEST_F(PackedStartTest, WhereNothingCanBeWrittenAModelLoads) {
  const Opened expected = Open(R"("packed_cache": "off")");
  for (const std::string place : {"/proc/nowhere", "/proc"}) {
    for (int start = 0; start < 2; ++start) {
      const Opened opened = Open(R"("packed_cache": ")" + place + "\"");
      EXPECT_THAT(opened.log,
                  ElementsAre(AllOf(HasSubstr("are not kept: the file cannot be written: "))));
      EXPECT_EQ(opened.severity, 2) << "a warning";
      EXPECT_GT(opened.packed, 0);
      EXPECT_TRUE(opened == expected);
    }
  }
}

TEST_F(PackedStartTest, TheDirectoryIsMade) {
  const std::filesystem::path place = cache_.path() / "of" / "weights";
  const std::string options = R"("packed_cache": ")" + place.string() + "\"";
  const Opened opened = Open(options);
  EXPECT_THAT(opened.log, ElementsAre(HasSubstr("are written")));
  EXPECT_EQ(opened.severity, 1) << "no warning";
  using Files = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Files(place), Files()), 1);
  EXPECT_THAT(Open(options).log, ElementsAre(HasSubstr("are used")));
}

TEST_F(PackedStartTest, SmallModelsHaveNoneUnlessADirectoryIsNamed) {
  for (const char* options : {"", R"("packed_cache": "auto")", R"("packed_cache": "off")"}) {
    const Opened opened = Open(options);
    EXPECT_THAT(opened.log, IsEmpty());
    EXPECT_GT(opened.packed, 0);
  }
  EXPECT_THAT(FilesIn(model_), IsEmpty());
  Open(R"("packed_cache": ")" + model_.string() + "\"");
  EXPECT_THAT(FilesIn(model_), SizeIs(1));
}

TEST_F(PackedStartTest, ProcessesThatStartAtTheSameTime) {
  const Opened expected = Open(R"("packed_cache": "off")");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool good = true;
      for (int start = 0; start < 5; ++start) good = good && Open(InCache()) == expected;
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  const Opened after = Open(InCache());
  EXPECT_EQ(after.packed, 0);
  EXPECT_TRUE(after == expected);
  EXPECT_THAT(FilesIn(cache_), SizeIs(1));
}

}  // namespace
}  // namespace longstream
