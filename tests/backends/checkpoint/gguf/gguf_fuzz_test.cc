// Mutations of a valid GGUF file: each is read or refused. The sanitizers detect anything worse.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backends/checkpoint/gguf/gguf_config.h"
#include "backends/checkpoint/gguf/gguf_header.h"
#include "backends/checkpoint/gguf/gguf_model.h"
#include "backends/errors/error.h"
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/fuzz_trials.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

std::string Seed() {
  return GgufBytes()
      .Text("general.architecture", "gemma3")
      .U32("gemma3.block_count", 2)
      .U32("gemma3.context_length", 64)
      .U32("gemma3.embedding_length", 4)
      .U32("gemma3.feed_forward_length", 8)
      .U32("gemma3.attention.head_count", 2)
      .I32s("gemma3.attention.head_count_kv", {1, 1})
      .F32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f)
      .U32("gemma3.attention.sliding_window", 8)
      .Bools("gemma3.attention.sliding_window_pattern", {true, false})
      .Texts("tokenizer.ggml.tokens", {"<s>", "a", "b"})
      .Tensor("token_embd.weight", {4, 3}, 0, std::string(48, 'x'))
      .Tensor("rope_freqs.weight", {1}, 0, "four")
      .Tensor("blk.0.attn_q.weight", {32, 2}, 8, std::string(68, 'y'))
      .Bytes();
}

void Mutate(std::mt19937_64* random, std::string* file) {
  const auto below = [random](size_t n) { return static_cast<size_t>((*random)() % n); };
  static constexpr uint64_t kNumbers[] = {0,          1,          31,        255,
                                          1ULL << 31, 1ULL << 32, INT64_MAX, UINT64_MAX};
  const size_t at = below(file->size());
  switch (below(6)) {
    case 0:
      (*file)[at] = static_cast<char>((*file)[at] ^ (1 << below(8)));
      break;
    case 1:
      (*file)[at] = static_cast<char>(below(256));
      break;
    case 2:
      file->erase(at, 1 + below(8));
      break;
    case 3:
      file->insert(below(file->size()), file->substr(at, 1 + below(32)));
      break;
    case 4: {
      const std::string number = BytesOf(kNumbers[below(std::size(kNumbers))]);
      file->replace(at, below(2) == 0 ? 4 : 8, number.substr(0, below(2) == 0 ? 4 : 8));
      break;
    }
    default:
      file->resize(at);
      break;
  }
  if (file->empty()) file->push_back('\0');
}

// Reads every value and every byte of every tensor.
uint64_t ReadAll(const GgufHeader& header, std::span<const char> file) {
  uint64_t sum = 0;
  for (const auto& [key, value] : header.metadata) {
    sum += value.Found().size() + value.Integers(1000).value_or(std::vector<int64_t>()).size();
    for (const std::string_view text : value.Strings().value_or(std::vector<std::string_view>())) {
      for (const char c : text) sum += static_cast<uint8_t>(c);
    }
  }
  for (const GgufTensor& tensor : header.tensors) {
    for (uint64_t i = 0; i < tensor.num_bytes; ++i) {
      sum += static_cast<uint8_t>(file[tensor.offset + i]);
    }
  }
  return sum;
}

TEST(GgufFuzzTest, MutationsAreReadOrRefused) {
  std::mt19937_64 random(20250101);
  const std::string seed = Seed();
  int read = 0;
  int refused = 0;
  uint64_t sum = 0;
  FuzzTrials trials(20000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string file = seed;
    const int count = 1 + static_cast<int>(random() % 3);
    for (int m = 0; m < count; ++m) Mutate(&random, &file);
    // An exact copy on the heap, so that reading one byte too far is caught.
    const std::vector<char> bytes(file.begin(), file.end());
    try {
      sum +=
          ReadAll(ParseGguf(std::as_bytes(std::span(bytes)), bytes.size(), "fuzz").value(), bytes);
      ++read;
    } catch (const BackendError& error) {
      EXPECT_TRUE(error.code() == LS_DATA_LOSS || error.code() == LS_UNIMPLEMENTED) << error.what();
      ++refused;
    }
  }
  // Both outcomes must occur, else the mutations test nothing.
  EXPECT_GT(read, trials.count() / 20);
  EXPECT_GT(refused, trials.count() / 5);
  EXPECT_GT(sum, 0u);
}

TEST(GgufFuzzTest, ConfigsAreWrittenOrRefused) {
  std::mt19937_64 random(7);
  const std::string seed = Seed();
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/m.gguf";
  int written = 0;
  int refused = 0;
  FuzzTrials trials(500);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string file = seed;
    Mutate(&random, &file);
    directory.Write("m.gguf", file);
    try {
      const GgufModel model(FindGgufFiles(path));
      written += GgufConfigText(model).empty() ? 0 : 1;
      const GgufConversions conversions(model);
      for (const GgufTensor& tensor : model.parts()[0].front.header.tensors) {
        conversions.Of(tensor);
      }
    } catch (const BackendError& error) {
      EXPECT_NE(error.code(), LS_INTERNAL) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(written, trials.count() / 20);
  EXPECT_GT(refused, trials.count() / 5);
}

}  // namespace
}  // namespace longstream
