// `longstream chat` on pipes and on a terminal.
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using testing::HasSubstr;

using ChatTest = ClientTest;

constexpr auto kTerminal = ClientProcess::Terminal::kYes;

TEST_F(ChatTest, AnswersEveryLineUntilTheInputEnds) {
  const ClientRun run = RunOk({"chat", "-m", "quick", "-n", "4", "--ignore-eos"}, "abc\nde");
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 4 + 4 tokens"));
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 3 + 4 tokens"));
}

TEST_F(ChatTest, AnEmptyLineEnds) {
  const ClientRun run = RunOk({"chat", "-m", "quick", "-n", "4", "--ignore-eos"}, "abc\n\nde\n");
  EXPECT_THAT(run.err, testing::Not(HasSubstr("3 + 4 tokens")));
}

TEST_F(ChatTest, AnswersAreLinesOfJson) {
  const ClientRun run =
      RunOk({"--json", "chat", "-m", "quick", "-n", "4", "--ignore-eos"}, "abc\nde\n");
  std::istringstream lines(run.out);
  int answers = 0;
  for (std::string line; std::getline(lines, line); ++answers) {
    const nlohmann::json answer = nlohmann::json::parse(line);
    EXPECT_EQ(answer.at("finish_reason"), "max_tokens") << line;
  }
  EXPECT_EQ(answers, 2);
}

// The session holds "[system]s.[user]abc.[assistant]", the answer "AAAA", then
// ".[user]de.[assistant]".
TEST_F(ChatTest, SendsMessagesWhereTheModelHasATemplate) {
  const ClientRun run = RunOk(
      {"chat", "-m", "talk", "-n", "4", "--ignore-eos", "--logit-bias", "65=100", "--system", "s"},
      "abc\nde\n");
  EXPECT_THAT(run.out, HasSubstr("AAAA"));
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 31 + 4 tokens"));
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 21 + 4 tokens"));
}

TEST_F(ChatTest, RawLinesAreText) {
  const ClientRun run = RunOk({"chat", "-m", "talk", "-n", "4", "--ignore-eos", "--raw"}, "abc\n");
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 4 + 4 tokens"));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("continues")));
}

TEST_F(ChatTest, SaysThatAModelWithoutATemplateContinuesText) {
  constexpr char kLine[] =
      "the model has no chat template; the model continues the text of your lines\n";
  EXPECT_THAT(RunOk({"chat", "-m", "quick"}, "").err, testing::StartsWith(kLine));
  EXPECT_THAT(RunOk({"chat", "-m", "talk"}, "").err, testing::Not(HasSubstr("continues")));
}

// Byte 0xC3 begins a character. Every answer ends within it, and no answer begins with U+FFFD.
TEST_F(ChatTest, AnswersEndWithTheReplacementOfAnIncompleteCharacter) {
  for (const char* model : {"quick", "talk"}) {
    const ClientRun run =
        RunOk({"chat", "-m", model, "-n", "1", "--logit-bias", "195=100"}, "abc\nde\n");
    EXPECT_EQ(run.out, "\uFFFD\n\uFFFD\n") << model;
  }
}

TEST_F(ChatTest, ToolsAndTemplateArguments) {
  const TemporaryDirectory directory;
  directory.Write("tools.json", R"([{"type": "function"}, {}])");
  const ClientRun run =
      RunOk({"chat", "-m", "talk", "-n", "4", "--ignore-eos", "--tools",
             directory.string() + "/tools.json", "--template-args", R"({"mood": "glad"})"},
            "abc\n");
  // The prompt is "2glad[user]abc.[assistant]", which has 26 characters.
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 26 + 4 tokens"));
}

TEST_F(ChatTest, ASystemMessageNeedsATemplateAndTheBeginning) {
  ExpectFailure(2, {"chat", "-m", "quick", "--system", "s"}, "the model has no chat template",
                "abc\n");
  const std::string session = connection_.Open("talk").session_id();
  EXPECT_EQ(Run({"chat", "-s", session, "-n", "4", "--ignore-eos"}, "abc\n").exit_code, 0);
  ExpectFailure(2, {"chat", "-s", session, "--system", "s"}, "the session already has tokens",
                "abc\n");
  connection_.Close(session);
}

TEST_F(ChatTest, LeavesTheUsersSessionOpen) {
  const std::string session = connection_.Open("quick").session_id();
  EXPECT_EQ(Run({"chat", "-s", session, "-n", "4", "--ignore-eos"}, "abc\n").exit_code, 0);
  EXPECT_EQ(connection_.Get(session).position(), 8u);
  connection_.Close(session);
}

TEST_F(ChatTest, CtrlCStopsEachAnswerAndAtThePromptTheChat) {
  ClientProcess client(Arguments({"chat", "-m", "slow", "-n", "2000", "--ignore-eos"}), kTerminal);
  for (int answer = 0; answer < 3; ++answer) {
    client.WaitFor("> ");
    client.Write("abc\n");
    client.WaitFor("abc\r\n");  // the terminal echoes the line
    client.WaitForMore();       // the answer has begun
    client.Write("\x03");
    client.WaitFor("CANCELLED");
  }
  client.WaitFor("> ");
  // The session keeps the tokens of each answer that were received before the interrupt.
  EXPECT_GT(connection_.Sessions("").at(0).position(), 12u);
  client.Write("\x03");
  EXPECT_EQ(client.Wait(), 130);
}

TEST_F(ChatTest, CtrlDEnds) {
  ClientProcess client(Arguments({"chat", "-m", "quick"}), kTerminal);
  client.WaitFor("> ");
  client.Write("\x04");
  EXPECT_EQ(client.Wait(), 0);
}

TEST_F(ChatTest, ATerminalThatGoesAwayEndsAnAnswerAndTheChat) {
  ClientProcess client(Arguments({"chat", "-m", "slow", "-n", "2000", "--ignore-eos"}));
  client.Write("abc\n");
  client.WaitForOutput(1);
  client.Signal(SIGHUP);
  EXPECT_EQ(client.Wait(), 129);
}

// The second line does not fit into the context; the first and the third do.
std::string LinesAround(const std::string& line) { return "abc\n" + line + "\nde\n"; }

TEST_F(ChatTest, AFailedTurnIsToldAndTheChatGoesOn) {
  const ClientRun run =
      Run({"chat", "-m", "quick", "-n", "4", "--ignore-eos"}, LinesAround(std::string(70000, 'x')));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 4 + 4 tokens"));
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 3 + 4 tokens"));
}

TEST_F(ChatTest, AFailedTurnIsALineOfJson) {
  const ClientRun run = Run({"--json", "chat", "-m", "quick", "-n", "4", "--ignore-eos"},
                            LinesAround(std::string(70000, 'x')));
  EXPECT_EQ(run.exit_code, 1);
  std::vector<nlohmann::json> turns;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) turns.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(turns.size(), 3u) << run.out;
  EXPECT_EQ(turns[0].at("finish_reason"), "max_tokens");
  EXPECT_EQ(turns[1].at("session"), turns[0].at("session"));
  EXPECT_EQ(turns[1].at("error").at("code"), "INVALID_ARGUMENT");
  EXPECT_THAT(turns[1].at("error").at("message").get<std::string>(), HasSubstr("70001"));
  EXPECT_EQ(turns[2].at("finish_reason"), "max_tokens");
}

TEST_F(ChatTest, AServerThatGoesAwayIsExitCode3) {
  auto server = std::make_unique<TestServer>();
  ClientProcess client({"--server", server->address(), "--json", "--retry", "0.5", "chat", "-m",
                        "quick", "-n", "4"});
  client.Write("abc\n");
  client.WaitFor("\"finish_reason\"");
  server.reset();
  client.Write("de\n");
  client.WaitFor("\"UNAVAILABLE\"");
  client.Write("fg\n");
  client.WaitFor("\"UNAVAILABLE\"");
  client.CloseInput();
  EXPECT_EQ(client.Wait(), 3);
}

// An answer that the user stops is no failure. It still gets a line of JSON.
TEST_F(ChatTest, CtrlCAtAnAnswerIsNoFailure) {
  ClientProcess client(Arguments({"--json", "chat", "-m", "slow", "-n", "2000", "--ignore-eos"}),
                       kTerminal);
  client.WaitFor("> ");
  client.Write("abc\n");
  EXPECT_EQ(OpenSessions(1), 1u);
  while (!connection_.Sessions("").at(0).turn_running()) {
  }
  client.Write("\x03");
  client.WaitFor("\"CANCELLED\"");
  client.WaitFor("> ");
  client.Write("\x04");
  EXPECT_EQ(client.Wait(), 0);
}

TEST_F(ChatTest, AnUnknownSessionIsAnError) {
  ExpectFailure(1, {"chat", "-s", std::string(32, '0')}, "NOT_FOUND", "abc\n");
}

}  // namespace
}  // namespace longstream
