// The memory that loading takes: the weights and a window of the checkpoint, not the whole file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/packing/load_weights.h"
#include "kernels/reference/reference_ops.h"
#include "tests/bench/plans/random_checkpoint.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLeastFileBytes = 110 * kMiB;

// The number of rows packed so far.
int64_t packed_rows = 0;

void PackAndCount(const Executor& executor, const PackArgs& args) {
  reference::Pack(executor, args);
  packed_rows += args.num_rows;
}

// Bytes of a line of /proc/self/status (in kB), such as "VmHWM".
uint64_t StatusBytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == std::string(name) + ":" && status >> kib) return kib * 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + std::string(name));
}

// Loads a checkpoint in bf16: embedding and head are 32 MiB each, matrices of the MLP 16 MiB each.
class LoadingMemoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    directory_.emplace();
    WriteRandomCheckpoint(Spec(), "{}", directory_->string());
    ASSERT_GE(std::filesystem::file_size(directory_->string() + "/model.safetensors"),
              kLeastFileBytes);
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static ModelSpec Spec() {
    ModelSpec spec;
    spec.vocabulary = 32768;
    spec.width = 512;
    spec.mlp_width = 16384;
    spec.tied_head = false;
    MixerSpec mixer;
    mixer.num_heads = 8;
    mixer.num_kv_heads = 4;
    mixer.head_dim = 64;
    mixer.value_dim = 64;
    spec.layers = {mixer};
    return spec;
  }

  static ModelWeights Load(const Checkpoint& checkpoint, PackFunction pack,
                           const std::string& packed_cache = "off", const LoadLog& log = nullptr) {
    OpTable ops;
    ops.packed_bytes = reference::PackedBytes;
    ops.pack = pack;
    ops.compress = reference::Compress;
    const std::string options =
        R"({"packed_cache": ")" + packed_cache + R"(", "weights": ")" + GetParam() + R"("})";
    return LoadWeights(Spec(), checkpoint, LoadOptions(options.c_str()), ops, Executor(),
                       HostMemory(), log);
  }

  static std::optional<TemporaryDirectory> directory_;
};

std::optional<TemporaryDirectory> LoadingMemoryTest::directory_;

// Loads the weights in a process of its own. Its memory begins as a copy of this process's memory.
TEST_P(LoadingMemoryTest, ThePeakIsTheWeightsAndAWindow) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    malloc_trim(0);  // free memory would be reused and not counted
    const uint64_t before = StatusBytes("VmRSS");
    const Checkpoint checkpoint(directory_->string());
    const ModelWeights weights = Load(checkpoint, reference::Pack);
    const uint64_t peak = StatusBytes("VmHWM") - before;
    // AddressSanitizer's records take an eighth.
    if (peak >= weights.bytes && peak <= weights.bytes * 9 / 8 + 32 * kMiB) _exit(0);
    fprintf(stderr, "peak %lu beside weights of %lu\n", peak, weights.bytes);
    _exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// The second load reads the packed weights and not the checkpoint.
TEST_P(LoadingMemoryTest, LargeWeightsAreKeptBesideTheCheckpoint) {
  std::vector<std::string> log;
  const auto note = [&](int32_t, const std::string& sentence) { log.push_back(sentence); };
  const Checkpoint checkpoint(directory_->string());
  const ModelWeights first = Load(checkpoint, reference::Pack, "auto", note);
  const std::string prefix =
      "packed weights " + directory_->string() + "/weights-" + GetParam() + "-";
  if (first.bytes < PackedCache::kLeastBytes) {
    EXPECT_THAT(log, IsEmpty());
    return;
  }
  EXPECT_THAT(log, ElementsAre(AllOf(StartsWith(prefix), HasSubstr(".packed are written"))));
  log.clear();
  packed_rows = 0;
  const ModelWeights second = Load(checkpoint, PackAndCount, "auto", note);
  EXPECT_THAT(log, ElementsAre(AllOf(StartsWith(prefix), EndsWith(".packed are used"))));
  EXPECT_EQ(second.bytes, first.bytes);
  EXPECT_EQ(std::memcmp(second.storage[0].get(), first.storage[0].get(), first.bytes), 0);
  EXPECT_LT(packed_rows, 1000);  // only the layout's hash, no matrix
}

INSTANTIATE_TEST_SUITE_P(Weights, LoadingMemoryTest, ::testing::Values("auto", "f16", "int8"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace longstream
