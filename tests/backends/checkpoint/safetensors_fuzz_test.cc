// Mutations of a valid safetensors file: each is read or refused. The sanitizers detect anything
// worse.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backends/checkpoint/safetensors.h"
#include "backends/errors/error.h"
#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/fuzz_trials.h"

namespace longstream {
namespace {

std::string Seed() {
  return SafetensorsBytes({CountingTensor("model.embed_tokens.weight", {3, 2}),
                           {"empty", "BF16", {0, 4}, ""},
                           {"model.norm.weight", "F16", {2}, "abcd"},
                           CountingTensor("lm_head.weight", {3, 2})});
}

// Pieces of headers, so that mutations get past the JSON parser.
const char* const kPieces[] = {"0",
                               "-1",
                               "18446744073709551615",
                               "9223372036854775807",
                               "1e9",
                               "[",
                               "]",
                               "{",
                               "}",
                               ",",
                               ":",
                               "\"",
                               "null",
                               "\"F64\"",
                               "\"dtype\"",
                               "\\u",
                               "[0,0]",
                               "\"shape\"",
                               "\"data_offsets\"",
                               "\xff"};

void Mutate(std::mt19937_64* random, std::string* file) {
  const auto below = [random](size_t n) { return static_cast<size_t>((*random)() % n); };
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
      file->insert(at, kPieces[below(std::size(kPieces))]);
      break;
    case 4:
      file->insert(below(file->size()), file->substr(at, 1 + below(32)));
      break;
    default:
      (*file)[at] = static_cast<char>('0' + below(10));
      break;
  }
  if (file->empty()) file->push_back('\0');
}

// Sums every byte of every tensor, so that the sanitizers notice one out of bounds.
uint64_t ReadAll(const std::vector<StoredTensor>& tensors, std::span<const char> file) {
  uint64_t sum = 0;
  for (const StoredTensor& tensor : tensors) {
    for (uint64_t i = 0; i < tensor.num_bytes; ++i) {
      sum += static_cast<uint8_t>(file.data()[tensor.offset + i]);
    }
  }
  return sum;
}

TEST(SafetensorsFuzzTest, MutationsAreReadOrRefused) {
  std::mt19937_64 random(20240601);
  const std::string seed = Seed();
  int read = 0;
  int refused = 0;
  uint64_t sum = 0;
  FuzzTrials trials(20000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string file = seed;
    const int count = 1 + static_cast<int>(random() % 4);
    for (int m = 0; m < count; ++m) Mutate(&random, &file);
    // Half of them get a correct header length.
    if (random() % 2 == 0 && file.size() > 8) {
      const size_t end = file.rfind('}');
      const size_t length = end == std::string::npos || end < 8 ? 0 : end - 7;
      for (int b = 0; b < 8; ++b)
        file[static_cast<size_t>(b)] = static_cast<char>(length >> (8 * b));
    }
    // An exact copy on the heap, so that reading one byte too far is caught.
    const std::vector<char> bytes(file.begin(), file.end());
    try {
      sum +=
          ReadAll(ParseSafetensors(std::as_bytes(std::span(bytes)), bytes.size(), "fuzz"), bytes);
      ++read;
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code(), LS_DATA_LOSS) << error.what();
      ++refused;
    }
  }
  // Both outcomes must occur, else the mutations test nothing.
  EXPECT_GT(read, trials.count() / 200);
  EXPECT_GT(refused, trials.count() / 2);
  EXPECT_GT(sum, 0u);
}

}  // namespace
}  // namespace longstream
