// The answers that a client gets if the backend computes NaN or lacks a capability, and the answers
// with different tokenizers.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;

constexpr char kTestPlugins[] = LONGSTREAM_BINARY_DIR "/test_plugins/";

class NanServerTest : public ServerTest {
 protected:
  NanServerTest() : ServerTest("{}", 0, std::string(kTestPlugins) + "nan_logits.so") {}
};

TEST_F(NanServerTest, GenerateIsInternalAndRolledBack) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Request(id)).status.ok());
  v1::GenerateRequest request = Request(id);
  request.mutable_input()->set_text(std::string("a\0b", 3));
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.status.error_code(), StatusCode::INTERNAL);
  EXPECT_NE(generated.status.error_message().find("NaN"), std::string::npos);
  EXPECT_EQ(Get(id).position(), 15u);
  EXPECT_EQ(model().RequestsCounted("INTERNAL"), 1.0);
  EXPECT_TRUE(Generate(Request(id)).status.ok()) << "the session can be used after the failure";
  ExpectAlive();
}

// The fault of the request appears only when a token is drawn.
TEST_F(NanServerTest, SamplingThatLeavesNoTokenIsRefused) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Request(id)).status.ok());
  v1::GenerateRequest request = Request(id);
  request.mutable_input()->set_text(
      "a\x01"
      "b");
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(generated.status.error_message(), "sampling: penalties: they leave no token");
  EXPECT_EQ(Get(id).position(), 15u) << "the refused turn was not rolled back";
  EXPECT_EQ(model().RequestsCounted("INVALID_ARGUMENT"), 1.0);
  EXPECT_TRUE(Generate(Request(id)).status.ok()) << "the session can be used after the refusal";
}

TEST_F(NanServerTest, ScoreIsInternal) {
  const auto score = [this](const std::string& text) {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    request.mutable_input()->set_text(text);
    const auto reader = stub().Score(&context, request);
    v1::ScoreResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  };
  const grpc::Status status = score(std::string("ab\0cd", 5));
  EXPECT_EQ(status.error_code(), StatusCode::INTERNAL);
  EXPECT_NE(status.error_message().find("NaN"), std::string::npos) << status.error_message();
  EXPECT_EQ(model().RequestsCounted("INTERNAL"), 1.0);
  EXPECT_TRUE(score("abcd").ok());
}

// The largest batch that a configuration may ask for.
class LargeStepTest : public ServerTest {
 protected:
  static constexpr uint32_t kBatchTokens = 65536;

  LargeStepTest() : ServerTest("{}", 0, MinimalModel::PluginFile(), "", kBatchTokens) {}
};

// A gRPC client accepts messages of 4 MiB by default, and 20 000 rows of 20 tokens are larger than
// that.
TEST_F(LargeStepTest, MessagesStayBelowAMebibyte) {
  constexpr uint64_t kTokens = 20000;
  grpc::ClientContext context;
  v1::ScoreRequest request;
  request.mutable_input()->set_text(std::string(kTokens, 's'));
  request.set_top_log_probs(20);
  const auto reader = stub().Score(&context, request);
  v1::ScoreResponse response;
  uint64_t next = 0;
  uint64_t bytes = 0;
  while (reader->Read(&response)) {
    EXPECT_LT(response.ByteSizeLong(), 1u << 20);
    bytes += response.ByteSizeLong();
    if (response.has_summary()) continue;
    EXPECT_EQ(response.first_index(), next);
    next += static_cast<uint64_t>(response.tokens_size());
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(next, kTokens);
  EXPECT_EQ(response.summary().tokens(), kTokens - 1);
  EXPECT_GT(bytes, 4u << 20) << "the rows would fit into one message, so nothing was tested";
}

class BareServerTest : public ServerTest {
 protected:
  BareServerTest() : ServerTest("{}", 0, std::string(kTestPlugins) + "no_capabilities.so") {}
};

TEST_F(BareServerTest, WhatTheBackendLacksIsUnimplemented) {
  v1::ForkSessionRequest fork;
  fork.set_session_id(Open());
  v1::Session session;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub().ForkSession(&context, fork, &session);
    EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
    EXPECT_NE(status.error_message().find("model m cannot fork"), std::string::npos);
  }
  grpc::ClientContext context;
  v1::ScoreRequest score;
  score.mutable_input()->set_text("text");
  const auto reader = stub().Score(&context, score);
  v1::ScoreResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(model().RequestsCounted("UNIMPLEMENTED"), 1.0);
  EXPECT_TRUE(Generate(Request(fork.session_id())).status.ok());
}

TEST_F(ServerTest, CapabilitiesAreListed) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  v1::Model model;
  ASSERT_TRUE(stub().GetModel(&context, request, &model).ok());
  EXPECT_EQ(std::vector<std::string>(model.capabilities().begin(), model.capabilities().end()),
            (std::vector<std::string>{"snapshot", "fork", "score", "in_flight_tokens",
                                      "allowed_tokens"}));
}

// ---------------------------------------------------------------- tokenizers

class BpeServerTest : public ServerTest {
 protected:
  BpeServerTest() : ServerTest("{}", 0, MinimalModel::PluginFile(), ByteTokensJson()) {}
};

TEST_F(BpeServerTest, TextMustBeUtf8) {
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->set_text("ab\xff");
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(generated.status.error_message(),
            "input.text: expected UTF-8 text, found invalid UTF-8 at byte 2");
  ExpectAlive();
}

// A text that has too many bytes for the context is refused before it is tokenized.
TEST_F(BpeServerTest, TextOfMoreBytesThanTheContextCanHold) {
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->set_text(std::string(3 * 65536 + 1, ' '));
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(generated.status.error_message(),
            "input.text: 196609 bytes exceed the model's context of 65536 tokens, which hold at "
            "most 196608");
  ExpectAlive();
}

TEST_F(ServerTest, TextMayBeAnyBytesForTheByteTokenizer) {
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->set_text("ab\xff");
  const Generated generated = Generate(request);
  EXPECT_TRUE(generated.status.ok()) << generated.status.error_message();
  EXPECT_EQ(generated.started.prompt_tokens(), 3u);
}

class SmallVocabularyTest : public ServerTest {
 protected:
  SmallVocabularyTest()
      : ServerTest("{}", 0, std::string(kTestPlugins) + "small_vocabulary.so",
                   SixteenTokensJson()) {}
};

TEST_F(SmallVocabularyTest, NoMoreTokensAreAskedForThanThereAre) {
  constexpr char kMessage[] =
      "top_log_probs: expected 0 ... 16, the tokens of the vocabulary, found 17";
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->mutable_tokens()->add_ids(3);
  request.set_log_probs(true);
  request.set_top_log_probs(17);
  const grpc::Status status = Generate(request).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), kMessage);

  grpc::ClientContext context;
  v1::ScoreRequest score;
  *score.mutable_input() = request.input();
  score.set_top_log_probs(17);
  v1::ScoreResponse response;
  const auto reader = stub().Score(&context, score);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_message(), kMessage);
}

// The tokenizer's prefix comes before the first text of a session, and never again.
TEST_F(BpeServerTest, TheTextsPrefixComesOnce) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  Generated generated = Generate(request);
  ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
  EXPECT_EQ(generated.started.prompt_tokens(), 6u) << "the prefix and the five bytes of hello";
  EXPECT_EQ(generated.finish.usage().prompt_tokens(), 6u);
  EXPECT_EQ(generated.finish.position(), 16u);
  EXPECT_EQ(Generate(request).started.prompt_tokens(), 5u);

  request = Request(Open());
  for (const int32_t token : {33, 40, 41}) {
    request.mutable_input()->mutable_tokens()->add_ids(token);
  }
  EXPECT_EQ(Generate(request).started.prompt_tokens(), 3u) << "token ids get no prefix";
}

TEST_F(BpeServerTest, TheTextsPrefixComesOnceInAnAppend) {
  const std::string id = Open();
  grpc::ClientContext context;
  v1::AppendResponse response;
  const auto writer = stub().Append(&context, &response);
  v1::AppendRequest piece;
  piece.set_session_id(id);
  for (const char* text : {"", "ab", "cd"}) {
    piece.mutable_input()->set_text(text);
    ASSERT_TRUE(writer->Write(piece));
  }
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(response.position(), 5u);
}

}  // namespace
}  // namespace longstream
