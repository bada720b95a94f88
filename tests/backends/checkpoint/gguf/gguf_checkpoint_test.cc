// The tensors of GGUF files as a checkpoint: the conversion is undone, in pieces of any size and on
// any number of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "backends/checkpoint/checkpoint.h"
#include "kernels/core/thread_pool.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::HasSubstr;

const std::string kRoot = LONGSTREAM_SOURCE_DIR "/tests/golden/";

std::vector<std::byte> Bytes(const Checkpoint& checkpoint, const Tensor& tensor,
                             const Executor& executor = Executor()) {
  std::vector<std::byte> bytes(tensor.num_bytes);
  checkpoint.Read(tensor, 0, bytes, executor);
  return bytes;
}

// Reads `rows` rows at a time.
std::vector<std::byte> BytesInPieces(const Checkpoint& checkpoint, const Tensor& tensor,
                                     uint64_t rows, const Executor& executor) {
  std::vector<std::byte> bytes(tensor.num_bytes);
  const uint64_t piece = rows * (tensor.num_bytes / static_cast<uint64_t>(tensor.shape[0]));
  for (uint64_t first = 0; first < bytes.size(); first += piece) {
    const auto count = std::min<uint64_t>(piece, bytes.size() - first);
    checkpoint.Read(tensor, first, std::span(bytes).subspan(first, count), executor);
  }
  return bytes;
}

TEST(GgufCheckpointTest, HasTheTensorsThatWereConverted) {
  for (const char* name : {"llama", "granite", "qwen3", "cohere2", "phi3_longrope"}) {
    SCOPED_TRACE(name);
    const Checkpoint gguf(kRoot + "gguf/" + name + ".gguf");
    const Checkpoint original(kRoot + name);
    ASSERT_EQ(gguf.tensors().size(), original.tensors().size());
    for (const auto& [key, tensor] : original.tensors()) {
      const Tensor* const converted = gguf.Find(key);
      ASSERT_NE(converted, nullptr) << key;
      EXPECT_EQ(converted->shape, tensor->shape) << key;
      // Vectors are stored as F32 whatever they were.
      if (converted->type != tensor->type) continue;
      EXPECT_EQ(Bytes(gguf, *converted), Bytes(original, *tensor)) << key;
    }
  }
}

TEST(GgufCheckpointTest, PiecesAndThreadsGiveTheSameBytes) {
  ThreadPool pool(3);
  for (const char* name : {"llama", "gemma", "llama_small_blocks", "llama_k_blocks"}) {
    const Checkpoint gguf(kRoot + "gguf/" + name + ".gguf");
    for (const auto& [key, tensor] : gguf.tensors()) {
      SCOPED_TRACE(key);
      const std::vector<std::byte> whole = Bytes(gguf, *tensor);
      EXPECT_EQ(Bytes(gguf, *tensor, pool.AsExecutor()), whole);
      for (const uint64_t rows : {1, 3, 7}) {
        EXPECT_EQ(BytesInPieces(gguf, *tensor, rows, pool.AsExecutor()), whole);
      }
    }
  }
}

// Groups are read in the order of the converted rows, too.
TEST(GgufCheckpointTest, GroupsAreThoseOfTheRows) {
  const Checkpoint gguf(kRoot + "gguf/llama_small_blocks.gguf");
  for (const auto& [key, tensor] : gguf.tensors()) {
    if (!tensor->groups || tensor->type_name == "Q4_1" || tensor->type_name == "Q5_1") continue;
    SCOPED_TRACE(key);
    const int64_t rows = tensor->shape[0];
    const int64_t columns = tensor->shape[1];
    std::vector<WeightGroup> groups(static_cast<size_t>(rows * NumGroups(columns)));
    gguf.ReadGroups(*tensor, 0, 5, groups.data(), Executor());
    gguf.ReadGroups(*tensor, 5, rows - 5, groups.data() + 5 * NumGroups(columns), Executor());
    const std::vector<std::byte> bytes = Bytes(gguf, *tensor);
    for (int64_t i = 0; i < rows * columns; ++i) {
      float number;
      std::memcpy(&number, bytes.data() + static_cast<size_t>(i) * sizeof(float), sizeof(number));
      const WeightGroup& group = groups[static_cast<size_t>(i / kGroupInputs)];
      ASSERT_EQ(ToF32(group.scale) * static_cast<float>(group.values[i % kGroupInputs]), number);
    }
  }
}

// A file is renamed over another while it is read: its tensors are read as its own metadata says,
// or the checkpoint is not opened. Only a llama has rows in another order.
TEST(GgufCheckpointTest, AFileThatIsReplacedIsNotMixedWithAnother) {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& architecture, char byte) {
    return directory.Write(architecture,
                           GgufBytes()
                               .Text("general.architecture", architecture)
                               .U32(architecture + ".attention.head_count", 2)
                               .Tensor("blk.0.attn_q.weight", {4, 8}, 0, std::string(128, byte))
                               .Bytes());
  };
  const std::string path = directory.string() + "/m.gguf";
  const std::string next = directory.string() + "/next";
  const std::string sources[] = {write("llama", 'l'), write("qwen2", 'q')};
  std::filesystem::copy_file(sources[0], path);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (size_t i = 1; !done; ++i) {
      std::filesystem::create_hard_link(sources[i % 2], next);
      std::filesystem::rename(next, path);
    }
  });
  for (int i = 0; i < 500; ++i) {
    try {
      const Checkpoint checkpoint(path);
      const Tensor& tensor = *checkpoint.Find("model.layers.0.self_attn.q_proj.weight");
      const bool is_llama = Bytes(checkpoint, tensor)[0] == std::byte{'l'};
      EXPECT_EQ(!checkpoint.RecipeOf(tensor).empty(), is_llama);
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code(), LS_UNAVAILABLE) << error.what();
    }
  }
  done = true;
  writer.join();
}

class GgufTensorErrorTest : public ::testing::Test {
 protected:
  // Opens a model with one more tensor.
  void Open(const std::string& name, const std::vector<uint64_t>& extents, uint32_t type,
            size_t bytes) {
    GgufBytes file;
    file.Text("general.architecture", architecture_)
        .U32(architecture_ + ".attention.head_count", 3)
        .Tensor(name, extents, type, std::string(bytes, 'x'));
    const Checkpoint checkpoint(directory_.Write("m.gguf", file.Bytes()));
  }

  void ExpectRefused(ls_code code, const std::string& sentence, const std::string& name,
                     const std::vector<uint64_t>& extents, uint32_t type, size_t bytes) {
    ExpectError(code, directory_.string() + "/m.gguf: tensor \"" + name + "\" " + sentence,
                [&] { Open(name, extents, type, bytes); });
  }

  std::string architecture_ = "llama";
  const TemporaryDirectory directory_;
};

TEST_F(GgufTensorErrorTest, NamesTypeAndShape) {
  ExpectRefused(LS_UNIMPLEMENTED,
                "has the type IQ2_XXS, expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K "
                "to Q6_K, IQ4_NL or IQ4_XS",
                "blk.0.ffn_up.weight", {256}, 16, 66);
  ExpectRefused(LS_INVALID_ARGUMENT, "is a vector of blocks, expected a matrix",
                "output_norm.weight", {32}, 8, 34);
  ExpectRefused(LS_INVALID_ARGUMENT,
                "must have an even number of rows for each of 3 heads, found [8, 4]",
                "blk.0.attn_q.weight", {4, 8}, 0, 128);
  ExpectRefused(LS_INVALID_ARGUMENT,
                "must have an even number of rows for each of 3 heads, found [9, 4]",
                "blk.0.attn_k.weight", {4, 9}, 0, 144);
  architecture_ = "gemma";
  ExpectRefused(LS_INVALID_ARGUMENT, "is a norm, expected the type F32", "output_norm.weight", {4},
                1, 8);
}

TEST_F(GgufTensorErrorTest, KeepsTheNamesThatItDoesNotKnow) {
  const std::string path =
      directory_.Write("m.gguf", GgufBytes()
                                     .Text("general.architecture", "qwen2")
                                     .Tensor("blk.0.acme.weight", {1}, 0, "four")
                                     .Tensor("rope_factors_long.weight", {1}, 0, "four")
                                     .Tensor("blk.123456.attn_q.weight", {1}, 0, "four")
                                     .Tensor("blk.7.attn_q.scale", {1}, 0, "four")
                                     .Bytes());
  const Checkpoint checkpoint(path);
  for (const char* name : {"blk.0.acme.weight", "rope_factors_long.weight",
                           "blk.123456.attn_q.weight", "blk.7.attn_q.scale"}) {
    EXPECT_NE(checkpoint.Find(name), nullptr) << name;
  }
  EXPECT_EQ(checkpoint.path(), path);
  EXPECT_EQ(checkpoint.directory(), directory_.string());
  ExpectError(LS_INVALID_ARGUMENT, HasSubstr("m.gguf: tensor \"lm_head.weight\" is missing"), [&] {
    checkpoint.Get("lm_head.weight", std::vector<int64_t>{1, 1});
  });
}

}  // namespace
}  // namespace longstream
