// Inputs read after a history: the tokens that a tokenizer puts before a text, and the context's
// limit.
#include "service/server/turn_input.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

using Ids = std::vector<int32_t>;

// The tokenizer puts a space ("_") before a text unless it continues another text, and <s> before
// the first text of a sequence.
constexpr char kMetaspace[] = R"({
  "model": {"type": "BPE", "vocab": {"a": 2, "_": 1, "_a": 3}, "merges": ["_ a"]},
  "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                   {"id": 5, "content": "<x>", "special": true}],
  "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"},
  "decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}}})";

class TurnInputTest : public testing::Test {
 protected:
  TurnInputTest() : files_(MinimalModel::PluginFile(), kMetaspace) {
    auto model = ServedModel::Load(files_.Source(R"({"context_limit": 20})"), files_.plugins(),
                                   files_.host());
    EXPECT_TRUE(model.ok()) << model.status();
    if (model.ok()) model_ = *std::move(model);
  }

  static v1::Input Text(const std::string& text) {
    v1::Input input;
    input.set_text(text);
    return input;
  }
  static v1::Input Tokens(const Ids& ids) {
    v1::Input input;
    input.mutable_tokens()->mutable_ids()->Add(ids.begin(), ids.end());
    return input;
  }

  // Reads a request that has this input and many other bytes.
  static absl::StatusOr<Ids> Read(TurnInput* reader, v1::Input input) {
    RequestMemory memory(std::numeric_limits<uint64_t>::max());
    RequestCharge charge(&memory, /*received_bytes=*/1 << 20);
    return reader->Read(&input, &charge);
  }

  MinimalModel files_;
  std::shared_ptr<ServedModel> model_;
};

TEST_F(TurnInputTest, EachTextIsReadAfterTheTokensBeforeIt) {
  struct Case {
    const char* name;
    Ids history;
    std::vector<v1::Input> inputs;
    Ids added;
  };
  const Case cases[] = {
      {"a sequence begins with <s>", {}, {Text("a")}, {4, 3}},
      {"an empty text adds nothing", {}, {Text("")}, {}},
      {"an absent input adds nothing", {}, {v1::Input()}, {}},
      {"a text goes on", {4, 3}, {Text("a")}, {2}},
      {"after a special token it begins anew", {4, 3, 5}, {Text("a")}, {3}},
      {"texts go on after each other", {}, {Text("a"), Text("a")}, {4, 3, 2}},
      {"the first text that adds something begins", {}, {Text(""), Text("a")}, {4, 3}},
      {"a token between them", {4, 3}, {Text("a"), Tokens({5}), Text("a")}, {2, 5, 3}},
      {"tokens get nothing before them", {}, {Tokens({2}), Text("a")}, {2, 2}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    SessionState history;
    history.tokens = c.history;
    TurnInput input(*model_, history, /*parse_special=*/false);
    Ids added;
    for (const v1::Input& piece : c.inputs) {
      const absl::StatusOr<Ids> tokens = Read(&input, piece);
      ASSERT_TRUE(tokens.ok()) << tokens.status();
      added.insert(added.end(), tokens->begin(), tokens->end());
    }
    EXPECT_EQ(added, c.added);
    EXPECT_EQ(input.position(), c.history.size() + c.added.size());
  }
}

TEST_F(TurnInputTest, RefusesWhatExceedsTheContext) {
  const uint64_t limit = model_->backend().info().context_limit;
  SessionState history;
  history.tokens.assign(limit - 2, 2);
  TurnInput input(*model_, history, false);
  EXPECT_TRUE(Read(&input, Tokens({2})).ok());
  const absl::Status status = Read(&input, Tokens({2, 2})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), absl::StrCat("input: 2 tokens after position ", limit - 1,
                                           " exceed the model's context of ", limit));
  EXPECT_TRUE(Read(&input, Tokens({2})).ok()) << "a refused input must add no tokens";
  TurnInput empty(*model_, SessionState(), false);
  EXPECT_EQ(Read(&empty, Tokens(Ids(limit + 1, 2))).status().message(),
            absl::StrCat("input: ", limit + 1, " tokens exceed the model's context of ", limit));
}

TEST_F(TurnInputTest, RefusesTokensOutsideTheVocabulary) {
  TurnInput input(*model_, SessionState(), false);
  const absl::Status status = Read(&input, Tokens({2, -1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("input.tokens.ids[1]: token id -1"), std::string::npos) << status;
}

// An id that takes one byte in the request takes four bytes in the message and four in the prompt.
TEST_F(TurnInputTest, TheMemoryOfTheIdsIsCounted) {
  RequestMemory memory(std::numeric_limits<uint64_t>::max());
  RequestCharge charge(&memory, /*received_bytes=*/0);
  ASSERT_TRUE(charge.Add(charge.bytes_left() - 8).ok());
  TurnInput input(*model_, SessionState(), false);
  v1::Input two = Tokens({2, 2});
  EXPECT_TRUE(input.Read(&two, &charge).ok());
  v1::Input one = Tokens({2});
  EXPECT_EQ(input.Read(&one, &charge).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(input.position(), 2u);
}

}  // namespace
}  // namespace longstream
