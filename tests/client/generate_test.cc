// `longstream generate`: output, options, exit codes, and sessions that are not left behind.
#include <csignal>
#include <string>

#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using GenerateTest = ClientTest;

TEST_F(GenerateTest, StreamsTextAndSaysWhatItTook) {
  const ClientRun run = RunOk({"generate", "-m", "quick", "-n", "8", "--ignore-eos", "abc"});
  EXPECT_GE(run.out.size(), 2u);
  EXPECT_EQ(run.out.back(), '\n');
  EXPECT_THAT(run.err, HasSubstr("[max_tokens, 3 + 8 tokens on quick, first after "));
}

TEST_F(GenerateTest, JsonHoldsTheTurn) {
  const json turn = RunJson({"generate", "-m", "dense", "-n", "5", "-t", "0", "--ignore-eos",
                             "--seed", "7", "import os"});
  EXPECT_EQ(turn["prompt_tokens"], 9);
  EXPECT_EQ(turn["restore_source"], "");
  EXPECT_EQ(turn["generated_tokens"], 5);
  EXPECT_EQ(turn["position"], 14);
  EXPECT_EQ(turn["finish_reason"], "max_tokens");
  EXPECT_EQ(turn["seed"], 7);
  EXPECT_EQ(turn["token_ids"].size(), 5u);
  EXPECT_EQ(turn["text"].get<std::string>().size(), 5u);
  EXPECT_EQ(turn["session"].get<std::string>().size(), 32u);
  EXPECT_EQ(turn["model"], "dense");
  EXPECT_EQ(turn["alias"], "");
  EXPECT_GT(turn["bytes"]["kv"], 0);
  EXPECT_FALSE(turn.contains("log_probs"));
}

TEST_F(GenerateTest, ATwinReadsAlong) {
  const Strings command = {"generate", "-m",     "quick", "--twin",       "slow", "-n",
                           "6",        "--seed", "7",     "--ignore-eos", "abc"};
  const json turn = RunJson(command);
  const json& twin = turn["twin"];
  EXPECT_EQ(twin["model"], "slow");
  EXPECT_EQ(twin["code"], 0);
  EXPECT_EQ(twin["compared_tokens"], 6);
  EXPECT_EQ(twin["sum_kl"], 0);
  ASSERT_EQ(twin["rows"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(twin["rows"][i]["token_id"], turn["token_ids"][i]);
    EXPECT_EQ(twin["rows"][i]["log_prob"], twin["rows"][i]["twin_log_prob"]);
    EXPECT_EQ(twin["rows"][i]["same_best"], true);
  }
  const ClientRun run = RunOk(command);
  EXPECT_THAT(run.out, HasSubstr("log-prob       twin  twin rank         KL  text"));
  EXPECT_THAT(run.err, HasSubstr("[twin slow: 6 of 6 tokens compared, KL 0.00000 on average"));
  EXPECT_THAT(run.err, HasSubstr("same best token at 100.0 %"));
  const ClientRun unknown = Run({"generate", "-m", "quick", "--twin", "nowhere", "abc"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND: twin_model: no model '"));
  EXPECT_FALSE(RunJson({"generate", "-m", "quick", "-n", "2", "abc"}).contains("twin"));
  // A table that leaves rows out says so.
  const std::string cut = "tokens with the greatest KL";
  EXPECT_THAT(run.out, testing::Not(HasSubstr(cut)));
  const Strings longer = {"generate", "-m", "quick",        "--twin", "slow",
                          "-n",       "12", "--ignore-eos", "abc"};
  EXPECT_THAT(RunOk(longer).out, HasSubstr("The 10 of 12 " + cut + "; --json has all:\n"));
}

TEST_F(GenerateTest, ThePromptComesFromTheCommandLineAFileStandardInputOrAsIds) {
  const TemporaryDirectory directory;
  directory.Write("prompt", "abc");
  const auto ids = [](const Strings& prompt) {
    Strings command = {"generate", "-m", "dense", "-n", "6", "-t", "0", "--ignore-eos"};
    command.insert(command.end(), prompt.begin(), prompt.end());
    return RunJson(command, "abc")["token_ids"];
  };
  const json expected = ids({"abc"});
  EXPECT_EQ(ids({"-f", directory.string() + "/prompt"}), expected);
  EXPECT_EQ(ids({"-f", "-"}), expected);
  EXPECT_EQ(ids({"--tokens", "97,98,99"}), expected);
}

TEST_F(GenerateTest, StopIdsMinTokensAndBias) {
  const Strings command = {"generate", "-m", "dense", "-n", "6", "-t", "0", "--ignore-eos", "abc"};
  const auto with = [&](const Strings& options) {
    Strings all = command;
    all.insert(all.end() - 1, options.begin(), options.end());
    return RunJson(all);
  };
  const json plain = with({});
  const std::string first = std::to_string(plain["token_ids"][0].get<int>());
  const json stopped = with({"--stop-id", first});
  EXPECT_EQ(stopped["finish_reason"], "stop_token");
  EXPECT_EQ(stopped["stop_token"], plain["token_ids"][0]);
  EXPECT_EQ(stopped["generated_tokens"], 1);
  EXPECT_GE(with({"--stop-id", first, "--min-tokens", "3"})["generated_tokens"], 3);
  EXPECT_NE(with({"--logit-bias", first + "=-100"})["token_ids"][0], plain["token_ids"][0]);
  EXPECT_EQ(with({"--logit-bias", "65=100"})["text"], "AAAAAA");
  EXPECT_NE(
      with({"--logit-bias", "65=100", "--logit-bias", "66=99", "--presence-penalty", "2"})["text"],
      "AAAAAA");
  EXPECT_THAT(
      with({"--logit-bias", "65=100", "--logit-bias", "66=99", "--frequency-penalty", "2"})["text"],
      HasSubstr("AB"));
  EXPECT_EQ(with({"--priority", "high"})["token_ids"], plain["token_ids"]);
}

TEST_F(GenerateTest, PenaltiesCountTheTurnOrTheSession) {
  const std::string session = connection_.Open("dense").session_id();
  const auto next = [&](const Strings& options) {
    Strings command = {"generate",     "-s",    session,        "-t",   "0",
                       "--logit-bias", "65=60", "--logit-bias", "66=50"};
    command.insert(command.end(), options.begin(), options.end());
    return RunJson(command)["text"];
  };
  EXPECT_EQ(next({"-n", "20", "x"}), std::string(20, 'A'));
  EXPECT_EQ(next({"-n", "1", "--frequency-penalty", "2"}), "A");
  EXPECT_EQ(next({"-n", "1", "--frequency-penalty", "2", "--penalty-scope", "session"}), "B");
  connection_.Close(session);
}

// Byte 0xC3 begins a character. A session that stays open may complete it.
TEST_F(GenerateTest, AnIncompleteCharacterIsShownOnce) {
  const Strings first = {"generate", "-m", "quick", "-n", "1", "--logit-bias", "195=100", "x"};
  EXPECT_EQ(RunOk(first).out, "\uFFFD\n");
  EXPECT_THAT(RunOk(first).err, HasSubstr("; ends within a character]\n"));
  const json turn = RunJson(first);
  EXPECT_EQ(turn["text"], "");
  EXPECT_EQ(turn["incomplete_character"], json::array({195}));
  EXPECT_EQ(turn["kept_text_bytes"], 0);

  const std::string session = connection_.Open("quick").session_id();
  const auto next = [&](const std::string& byte, const Strings& prompt) {
    Strings command = {"generate", "-s", session, "-n", "1", "--logit-bias", byte + "=100"};
    command.insert(command.end(), prompt.begin(), prompt.end());
    return RunOk(command).out;
  };
  EXPECT_EQ(next("195", {"x"}), "\n");
  EXPECT_EQ(next("169", {}), "\u00e9\n");
  EXPECT_EQ(next("195", {}), "\n");
  EXPECT_EQ(next("65", {"x"}), "\uFFFDA\n");
  connection_.Close(session);
}

TEST_F(GenerateTest, KeptTextIsCounted) {
  const json turn = RunJson({"generate", "-m", "quick", "-n", "9", "--logit-bias", "65=100",
                             "--stop", "AA", "--min-tokens", "2", "x"});
  EXPECT_EQ(turn["text"], "AA");
  EXPECT_EQ(turn["kept_text_bytes"], 2);
  EXPECT_EQ(turn["incomplete_character"], json::array());
}

TEST_F(GenerateTest, LogProbs) {
  const Strings options = {"generate", "-m",           "dense",           "-n", "3",  "-t",
                           "0",        "--ignore-eos", "--top-log-probs", "2",  "abc"};
  const json turn = RunJson(options);
  ASSERT_EQ(turn["log_probs"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json& token = turn["log_probs"][i];
    EXPECT_EQ(token["token_id"], turn["token_ids"][i]);
    EXPECT_LE(token["log_prob"], 0.0);
    // At temperature 0 the chosen token is the most probable one.
    ASSERT_EQ(token["top"].size(), 2u);
    EXPECT_EQ(token["top"][0]["token_id"], token["token_id"]);
    EXPECT_GE(token["top"][0]["log_prob"], token["top"][1]["log_prob"]);
  }
  const ClientRun text = RunOk(options);
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'),
            4 + std::count_if(turn["token_ids"].begin(), turn["token_ids"].end(),
                              [](const json& id) { return id == '\n'; }));
}

TEST_F(GenerateTest, ContinuesASessionAndLeavesItOpen) {
  const std::string session = connection_.Open("quick").session_id();
  EXPECT_EQ(RunJson({"generate", "-s", session, "-n", "2", "--ignore-eos", "ab"})["position"], 4);
  EXPECT_EQ(
      RunJson({"generate", "-s", session, "-m", "quick", "-n", "2", "--ignore-eos"})["position"],
      6);

  ExpectFailure(1, {"generate", "-s", session, "--expected-position", "4", "x"},
                "FAILED_PRECONDITION");
  EXPECT_EQ(connection_.Get(session).position(), 6u);
  connection_.Close(session);
}

TEST_F(GenerateTest, RefusesASessionOfAnotherModel) {
  const std::string session = connection_.Open("quick").session_id();
  ExpectFailure(2, {"generate", "-s", session, "-m", "slow", "x"},
                "session " + session + " is on quick, not on slow");
  connection_.Close(session);
}

TEST_F(GenerateTest, KeepLeavesTheSessionOpenAndNamesIt) {
  const ClientRun run = RunOk({"generate", "-m", "quick", "--keep", "-n", "2", "x"});
  const std::vector<v1::Session> sessions = connection_.Sessions("");
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_THAT(run.err, HasSubstr("session " + sessions[0].session_id() + "\n"));
  connection_.Close(sessions[0].session_id());
}

TEST_F(GenerateTest, AnInterruptStopsItWith130AndClosesItsSession) {
  ClientProcess client(Arguments({"generate", "-m", "slow", "-n", "2000", "--ignore-eos", "x"}));
  client.WaitForOutput(3);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
}

TEST_F(GenerateTest, SigtermStopsItWith143AndClosesItsSession) {
  ClientProcess client(Arguments({"generate", "-m", "slow", "-n", "2000", "--ignore-eos", "x"}));
  while (OpenSessions(1) != 1) {
  }
  client.Signal(SIGTERM);
  EXPECT_EQ(client.Wait(), 143);
}

// `timeout` signals the program, and then its group of processes, which has the program, too.
TEST_F(GenerateTest, ASignalThatComesTwiceLeavesNothing) {
  const std::string session = connection_.Open("slow").session_id();
  ClientProcess client(Arguments({"generate", "-s", session, "-n", "2000", "--ignore-eos", "x"}));
  client.WaitForOutput(3);
  for (int i = 0; i < 20; ++i) client.Signal(SIGTERM);
  EXPECT_EQ(client.Wait(), 143);
  EXPECT_FALSE(connection_.Get(session).turn_running()) << "the program has cancelled its turn";
  connection_.Close(session);
}

TEST_F(GenerateTest, AnInterruptEndsTheWaitForStandardInputAndForAServer) {
  ClientProcess reading(Arguments({"generate", "-m", "quick", "-f", "-"}));
  ClientProcess waiting({"--server", "127.0.0.1:1", "--wait", "60", "models"});
  reading.WaitUntilItHandles(SIGINT);
  waiting.WaitUntilItHandles(SIGINT);
  reading.Signal(SIGINT);
  waiting.Signal(SIGINT);
  EXPECT_EQ(reading.Wait(), 130);
  EXPECT_EQ(waiting.Wait(), 130);
}

TEST_F(GenerateTest, OnAbortSaysWhatAnInterruptLeaves) {
  for (const bool keep : {false, true}) {
    const std::string session = connection_.Open("slow").session_id();
    ClientProcess client(Arguments({"generate", "-s", session, "-n", "2000", "--ignore-eos",
                                    "--on-abort", keep ? "keep" : "rollback", "x"}));
    client.WaitForOutput(3);
    client.Signal(SIGINT);
    EXPECT_EQ(client.Wait(), 130);
    for (int i = 0; i < 1000 && connection_.Get(session).turn_running(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (keep) {
      EXPECT_GT(connection_.Get(session).position(), 3u);
    } else {
      EXPECT_EQ(connection_.Get(session).position(), 0u);
    }
    connection_.Close(session);
  }
}

TEST_F(GenerateTest, AReaderThatGoesAwayEndsItQuietly) {
  ClientProcess client(Arguments({"generate", "-m", "slow", "-n", "2000", "--ignore-eos", "x"}));
  client.WaitForOutput(3);
  client.CloseOutput();
  EXPECT_EQ(client.Wait(), 4);
  EXPECT_EQ(client.err(), "");
}

TEST_F(GenerateTest, AFullDiskIsAnError) {
  for (const Strings& command :
       {Strings{"generate", "-m", "quick", "-n", "4", "x"},
        Strings{"--json", "generate", "-m", "quick", "-n", "4", "x"}, Strings{"models"}}) {
    ClientProcess client(Arguments(command), ClientProcess::Terminal::kNo, "/dev/full");
    EXPECT_EQ(client.Wait(), 4);
    EXPECT_EQ(client.err(),
              "longstream: standard output cannot be written: No space left on device\n");
  }
}

TEST_F(GenerateTest, AFailedCallClosesTheSession) {
  ExpectFailure(1, {"generate", "-m", "quick", "--top-p", "0", "x"}, "INVALID_ARGUMENT");
}

TEST_F(GenerateTest, WrongUsage) {
  const TemporaryDirectory directory;
  for (const Strings& command :
       {Strings{"generate", "-m", "quick", "-f", directory.string()},
        Strings{"generate", "-m", "quick", "-f", directory.string() + "/none"},
        Strings{"generate", "-m", "quick", "-f", "x", "prompt"},
        Strings{"generate", "-m", "quick", "--tokens", "1,a"},
        Strings{"generate", "-m", "quick", "--tokens", "1", "prompt"},
        Strings{"generate", "-m", "quick", "--logit-bias", "5", "x"},
        Strings{"generate", "-m", "quick", "--logit-bias", "a=1", "x"},
        Strings{"generate", "-m", "quick", "--seed", "-1", "x"},
        Strings{"generate", "-m", "quick", "--seed", "18446744073709551616", "x"},
        Strings{"generate", "-m", "quick", "--expected-position", "-1", "x"},
        Strings{"--wait", "-1", "models"},
        Strings{"generate", "-m", "quick", "--priority", "urgent", "x"},
        Strings{"generate", "-m", "quick", "--on-abort", "panic", "x"},
        Strings{"generate", "--nonsense"}, Strings{}}) {
    const ClientRun run = Run(command);
    EXPECT_EQ(run.exit_code, 2) << testing::PrintToString(command) << run.err;
    EXPECT_NE(run.err, "");
  }
}

// CLI11 alone reads 010 as 8 and -18446744073709551615 as 1. If a number does not fit into 32 bits,
// its error names no limit.
TEST_F(GenerateTest, NumbersBeyondTheLimitsNameThem) {
  const std::string ids = "expected a whole number from 0 to 2147483647, found ";
  const std::string words = "expected a whole number from 0 to 4294967295, found ";
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"generate", "--top-k", "1099511627776", "x"}, "--top-k: " + ids + "'1099511627776'"},
      {{"generate", "--top-k", "-1", "x"}, "--top-k: " + ids + "'-1'"},
      {{"generate", "--stop-id", "2147483648", "x"}, "--stop-id: " + ids + "'2147483648'"},
      {{"generate", "--tokens", "1,4294967296"}, "--tokens: " + ids + "'4294967296'"},
      {{"generate", "--logit-bias", "4294967296=1", "x"}, "with an ID from 0 to 2147483647"},
      {{"generate", "-n", "4294967296", "x"}, "--max-tokens: " + words + "'4294967296'"},
      {{"generate", "-n", "010", "x"}, "--max-tokens: " + words + "'010'"},
      {{"generate", "-n", "-18446744073709551615", "x"},
       "--max-tokens: " + words + "'-18446744073709551615'"},
      {{"generate", "--min-tokens", "4294967296", "x"}, "--min-tokens: " + words + "'4294967296'"},
      {{"generate", "--top-log-probs", "21", "x"},
       "--top-log-probs: expected a whole number from 0 to 20, found '21'"},
      {{"--wait", "nan", "models"}, "--wait: expected a number from 0 to 1e+06, found 'nan'"},
      {{"generate", "-t", "hot", "x"},
       "--temperature: expected a number from 0 to 1000, found 'hot'"},
      {{"generate", "--top-p", "7", "x"}, "--top-p: expected a number from 0 to 1, found '7'"},
      {{"generate", "--min-p", "x", "x"}, "--min-p: expected a number from 0 to 1, found 'x'"},
      {{"generate", "--repetition-penalty", "-1", "x"},
       "--repetition-penalty: expected a number from 0 to 3.40282e+38, found '-1'"},
      {{"generate", "--presence-penalty", "3", "x"},
       "--presence-penalty: expected a number from -2 to 2, found '3'"},
      {{"generate", "--frequency-penalty", "-3", "x"},
       "--frequency-penalty: expected a number from -2 to 2, found '-3'"},
      {{"bench", "-t", "nan"}, "--temperature: expected a number from 0 to 100, found 'nan'"},
      {{"bench", "--streams", "4097"},
       "--streams: expected a whole number from 1 to 4096, found '4097'"},
  };
  for (const auto& [command, error] : cases) {
    const ClientRun run = Run(command);
    EXPECT_EQ(run.exit_code, 2) << error << run.err;
    EXPECT_THAT(run.err, HasSubstr(error));
  }
}

TEST_F(GenerateTest, AnEmptyServerIsWrongUsage) {
  for (const char* server : {"", " "}) {
    const ClientRun run = RunClient({"--server", server, "models"});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("--server: an empty address; expected host:port"));
  }
}

TEST_F(GenerateTest, ServersThatAreNotThereAndModelsThatAreNot) {
  EXPECT_EQ(RunClient({"--server", "127.0.0.1:1", "generate", "x"}).exit_code, 3);
  ExpectFailure(1, {"generate", "-m", "none", "x"}, "longstream: NOT_FOUND: ");
}

TEST_F(GenerateTest, ALongPromptShowsABarOnATerminalOnly) {
  const TemporaryDirectory directory;
  directory.Write("long", std::string(8000, 'x'));
  const Strings command = {"generate", "-m", "slow", "-n", "1", "-f", directory.string() + "/long"};
  ClientProcess client(Arguments(command), ClientProcess::Terminal::kYes);
  client.WaitFor("\rreading [###");
  client.WaitFor("/8000");
  EXPECT_EQ(client.Wait(), 0);
  EXPECT_THAT(Run(command).err, testing::Not(HasSubstr("reading")));
}

TEST_F(GenerateTest, HelpNamesEveryOption) {
  const ClientRun run = RunOk({"generate", "--help"});
  for (const char* option :
       {"--presence-penalty", "--frequency-penalty", "--penalty-scope", "--logit-bias",
        "--min-tokens", "--stop-id", "--log-probs", "--top-log-probs", "--priority",
        "--expected-position", "--on-abort", "--tokens", "Examples:"}) {
    EXPECT_THAT(run.out, HasSubstr(option));
  }
}

}  // namespace
}  // namespace longstream
