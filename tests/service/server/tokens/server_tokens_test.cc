// Tokenize and Detokenize: texts, messages, token ids, and inputs that are refused.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTokenTemplate[] =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{{ '[assistant]' if add_generation_prompt }}";

class ServerTokensTest : public ServerTest {
 protected:
  explicit ServerTokensTest(const std::string& tokenizer_json = "")
      : ServerTest("{}", 0, MinimalModel::PluginFile(), tokenizer_json,
                   ModelSource().max_batch_tokens, kTokenTemplate) {}

  grpc::Status Tokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse* response) {
    grpc::ClientContext context;
    return stub().Tokenize(&context, request, response);
  }
  v1::TokenizeResponse Read(const v1::TokenizeRequest& request) {
    v1::TokenizeResponse response;
    const grpc::Status status = Tokenize(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Detokenize(const v1::DetokenizeRequest& request, v1::DetokenizeResponse* response) {
    grpc::ClientContext context;
    return stub().Detokenize(&context, request, response);
  }
  // Checks that the request is INVALID_ARGUMENT, with a text in the message.
  template <typename Request>
  void ExpectInvalid(const Request& request, const std::string& text) {
    grpc::Status status;
    if constexpr (std::is_same_v<Request, v1::TokenizeRequest>) {
      v1::TokenizeResponse response;
      status = Tokenize(request, &response);
    } else {
      v1::DetokenizeResponse response;
      status = Detokenize(request, &response);
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(text));
    ExpectAlive();
  }
};

v1::TokenizeRequest OfText(const std::string& text) {
  v1::TokenizeRequest request;
  request.mutable_input()->set_text(text);
  return request;
}

// The tokenizer puts the token of "!" before the first text of a session.
class ServerPrefixTest : public ServerTokensTest {
 protected:
  ServerPrefixTest() : ServerTokensTest(ByteTokensJson()) {}
};

TEST_F(ServerPrefixTest, ATextBeginsAsInASession) {
  v1::TokenizeRequest request = OfText("ab");
  request.set_pieces(true);
  const v1::TokenizeResponse read = Read(request);
  EXPECT_THAT(read.token_ids(), ElementsAre('!', 'a', 'b'));
  EXPECT_THAT(read.pieces(), ElementsAre("!", "a", "b"));
  EXPECT_EQ(read.count(), 3u);
  EXPECT_EQ(read.model(), "m");
  EXPECT_EQ(read.context_limit(), Get(Open()).context_limit());

  v1::GenerateRequest generate = Request(Open());
  generate.mutable_input()->set_text("ab");
  EXPECT_EQ(Generate(generate).started.prompt_tokens(), read.count());

  request.set_add_special(false);
  request.set_pieces(false);
  const v1::TokenizeResponse bare = Read(request);
  EXPECT_THAT(bare.token_ids(), ElementsAre('a', 'b'));
  EXPECT_THAT(bare.pieces(), IsEmpty());
  request.set_add_special(true);
  request.set_count_only(true);
  request.set_pieces(true);
  const v1::TokenizeResponse counted = Read(request);
  EXPECT_EQ(counted.count(), 3u);
  EXPECT_THAT(counted.token_ids(), IsEmpty());
  EXPECT_THAT(counted.pieces(), IsEmpty());
  EXPECT_EQ(Read(OfText("")).count(), 0u);
}

TEST_F(ServerTokensTest, MessagesHaveTheTokensOfAPrompt) {
  v1::TokenizeRequest request;
  v1::Messages* const messages = request.mutable_input()->mutable_messages();
  v1::Message* const message = messages->add_messages();
  message->set_role("user");
  message->set_content("hi");
  request.set_count_only(true);
  EXPECT_EQ(Read(request).count(), std::string("[user]hi[assistant]").size());
  messages->set_add_generation_prompt(false);
  EXPECT_EQ(Read(request).count(), std::string("[user]hi").size());
  messages->set_add_generation_prompt(true);

  v1::GenerateRequest generate = Request(Open());
  *generate.mutable_input() = request.input();
  EXPECT_EQ(Generate(generate).started.prompt_tokens(), Read(request).count());
  message->set_role("no role");
  ExpectInvalid(request, "input.messages.messages[0].role");
}

TEST_F(ServerTokensTest, TokensHaveBytes) {
  v1::TokenizeRequest request;
  request.set_pieces(true);
  for (const int id : {0x61, 0xFF}) request.mutable_input()->mutable_tokens()->add_ids(id);
  const v1::TokenizeResponse read = Read(request);
  EXPECT_THAT(read.token_ids(), ElementsAre('a', 0xFF));
  EXPECT_THAT(read.pieces(), ElementsAre("a", "\xFF"));
  request.mutable_input()->mutable_tokens()->add_ids(256);
  ExpectInvalid(request, "input.tokens.ids[2]");
}

TEST_F(ServerTokensTest, IdsBecomeText) {
  v1::DetokenizeRequest request;
  const std::string bytes = "h\xC3\xA4\xFF";
  for (const char byte : bytes) request.add_token_ids(static_cast<unsigned char>(byte));
  v1::DetokenizeResponse response;
  ASSERT_TRUE(Detokenize(request, &response).ok());
  EXPECT_EQ(response.text(), "h\u00e4\uFFFD");
  EXPECT_EQ(response.model(), "m");
  request.clear_token_ids();
  ASSERT_TRUE(Detokenize(request, &response).ok());
  EXPECT_EQ(response.text(), "");
  for (const int id : {-1, 256}) {
    request.clear_token_ids();
    request.add_token_ids(0);
    request.add_token_ids(id);
    ExpectInvalid(request, "token_ids[1]");
    ExpectInvalid(request, std::to_string(id));
    ExpectInvalid(request, "256");
  }
}

// A text may be longer than the context, as long as the context could hold its bytes.
TEST_F(ServerTokensTest, LimitsOfTheInput) {
  ExpectInvalid(v1::TokenizeRequest(), "input: expected text, tokens or messages");
  const uint64_t limit = Get(Open()).context_limit();
  EXPECT_EQ(Read(OfText(std::string(limit, 'x'))).count(), limit);
  ExpectInvalid(OfText(std::string(limit + 1, 'x')), "exceed the model's context");
  v1::TokenizeRequest ids;
  ids.mutable_input()->mutable_tokens()->mutable_ids()->Resize(static_cast<int>(limit) + 1, 'x');
  const v1::TokenizeResponse read = Read(ids);
  EXPECT_GT(read.count(), read.context_limit());
}

TEST_F(ServerTokensTest, AnAnswerThatIsTooLargeIsRefused) {
  constexpr int kMany = 1'000'000;
  v1::TokenizeRequest request;
  request.mutable_input()->mutable_tokens()->mutable_ids()->Resize(kMany, 200);
  EXPECT_EQ(Read(request).token_ids_size(), kMany);
  request.set_pieces(true);
  ExpectInvalid(request,
                "the answer would have 5001024 bytes for 1000000 tokens, and may have "
                "4000000; ask for count_only, or divide the input");
  request.set_count_only(true);
  EXPECT_EQ(Read(request).count(), static_cast<uint64_t>(kMany));

  v1::DetokenizeRequest ids;
  ids.mutable_token_ids()->Resize(1'400'000, 0xFF);  // each becomes 3 bytes
  ExpectInvalid(ids, "token_ids: the answer would have more than 4000000 bytes");
}

TEST_F(ServerTokensTest, ErrorsOfTheModelAreThoseOfASession) {
  v1::OpenSessionRequest open;
  open.set_model("none");
  v1::Session session;
  grpc::ClientContext context;
  const grpc::Status refused = stub().OpenSession(&context, open, &session);
  v1::TokenizeRequest request = OfText("text");
  request.set_model("none");
  v1::TokenizeResponse response;
  const grpc::Status status = Tokenize(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), refused.error_message());
}

TEST_F(ServerTokensTest, ACallEndsWithItsDeadline) {
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(300 * i));
    v1::TokenizeResponse response;
    const grpc::Status status =
        stub().Tokenize(&context, OfText(std::string(20'000, 'x')), &response);
    if (status.ok()) continue;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  }
  ExpectAlive();
}

}  // namespace
}  // namespace longstream
