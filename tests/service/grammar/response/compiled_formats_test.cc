// Tests which formats are found again, and their limits.
#include "service/grammar/response/compiled_formats.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace longstream {
namespace {

using Kind = ResponseFormat::Kind;

class ByteTokens : public Tokenizer {
 public:
  ByteTokens() : Tokenizer({.vocab_size = 256}) {
    for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
  }
  std::string_view kind() const override { return "byte"; }
  std::string_view TokenBytes(int32_t id) const override {
    return tokens_[static_cast<size_t>(id)];
  }
  bool IsSpecial(int32_t) const override { return false; }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view, EncodeOptions) const override {
    return absl::UnimplementedError("only for decoding");
  }
  std::vector<std::string> tokens_;
};

ResponseFormat Letters(int count) { return {Kind::kRegex, "[a-z]{" + std::to_string(count) + "}"}; }

class CompiledFormatsTest : public ::testing::Test {
 protected:
  const ByteTokens tokens_;
};

TEST_F(CompiledFormatsTest, AFormatIsFoundAgain) {
  CompiledFormats formats(tokens_);
  const auto first = *formats.Get(Letters(5));
  EXPECT_EQ(*formats.Get(Letters(5)), first);
  EXPECT_NE(*formats.Get(Letters(6)), first);
  EXPECT_GT(formats.bytes(), 0u);
}

TEST_F(CompiledFormatsTest, WhatIsNotUsedIsForgotten) {
  CompiledFormats formats(tokens_, {.kept = 50'000});
  std::weak_ptr<const TokenMasks> first = *formats.Get(Letters(5));
  EXPECT_FALSE(first.expired()) << "it is kept";
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(formats.Get(Letters(6 + i)).ok());
  EXPECT_TRUE(first.expired());
}

TEST_F(CompiledFormatsTest, GrammarsInUseHaveALimit) {
  CompiledFormats formats(tokens_, {.grammars = 200'000});
  std::vector<std::shared_ptr<const TokenMasks>> used;
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    auto masks = formats.Get(Letters(500 + i));
    status = masks.status();
    if (masks.ok()) used.push_back(*std::move(masks));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(used.size(), 3u);
  used.clear();  // the turns have ended
  EXPECT_TRUE(formats.Get(Letters(900)).ok());
}

TEST_F(CompiledFormatsTest, WrongFormatsAreNotKept) {
  CompiledFormats formats(tokens_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(formats.Get({Kind::kRegex, "("}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CompiledFormatsTest, ThreadsShareFormats) {
  CompiledFormats formats(tokens_, {.kept = 20'000, .masks = 20'000});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&formats] {
      for (int i = 0; i < 100; ++i) {
        const auto masks = formats.Get(Letters(1 + i % 7));
        ASSERT_TRUE(masks.ok());
        Matcher matcher((*masks)->grammar());
        std::vector<uint32_t> mask((*masks)->words());
        ASSERT_TRUE((*masks)->Fill(matcher, absl::MakeSpan(mask)).ok());
        EXPECT_EQ(mask[3] >> 1 & 1, 1u) << "'a' may follow";
        EXPECT_EQ(mask[3] & 1, 0u) << "'`' may not";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace longstream
