// `longstream tokenize`: texts, conversations, and wrong usage.
#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TokenizeTest : public ClientTest {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    directory_.Write(name, text);
    return directory_.string() + "/" + name;
  }

 private:
  const TemporaryDirectory directory_;
};

TEST_F(TokenizeTest, AText) {
  const ClientRun run = RunOk({"tokenize", "-m", "dense", "a\n\xc3\xa4"});
  EXPECT_THAT(run.out, HasSubstr("      97  \"a\"\n      10  \"\\n\"\n"));
  EXPECT_THAT(run.out, HasSubstr("4 tokens of dense, whose context has "));
  const json tokens = RunJson({"tokenize", "-m", "dense", "-f", Write("text", "ab")});
  EXPECT_EQ(tokens["token_ids"], json::array({97, 98}));
  EXPECT_EQ(tokens["count"], "2");
  const ClientRun counted = RunOk({"tokenize", "-m", "dense", "--count", ""});
  EXPECT_THAT(counted.out, testing::StartsWith("0 tokens of dense"));
}

TEST_F(TokenizeTest, AConversation) {
  const std::string file =
      Write("chat", R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [{"a": 1}]})");
  const json tokens = RunJson({"tokenize", "-m", "talk", "--count", "--messages", file});
  EXPECT_EQ(tokens["count"], std::to_string(std::string("1[user]Hi.[assistant]").size()));
  EXPECT_EQ(tokens["token_ids"], json::array());
  const ClientRun run = Run({"tokenize", "-m", "dense", "--messages", file});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("chat template"));
}

TEST_F(TokenizeTest, WrongUsage) {
  EXPECT_EQ(Run({"tokenize", "-m", "dense"}).exit_code, 2);
  EXPECT_EQ(Run({"tokenize", "-m", "dense", "text", "--count", "-f", "x"}).exit_code, 2);
  for (const char* wrong : {"{}", "[1]", "[{\"content\": \"Hi\"}]", "no JSON"}) {
    const ClientRun run = Run({"tokenize", "-m", "dense", "--messages", Write("wrong", wrong)});
    EXPECT_EQ(run.exit_code, 2) << wrong;
    EXPECT_THAT(run.err, HasSubstr("--messages")) << wrong;
  }
  const ClientRun unknown = Run({"tokenize", "-m", "none", "text"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND"));
}

}  // namespace
}  // namespace longstream
