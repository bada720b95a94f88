// `longstream compare --prompts`: its numbers, resuming, and wrong usage, against a real server.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "client/read_file.h"
#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class PromptSetTest : public ClientTest {
 protected:
  std::string Path(const std::string& name) const { return (directory_.path() / name).string(); }
  std::string Report() const { return Path("report.json"); }
  std::string Partial() const { return Report() + ".partial"; }

  // The text of a prompt: 60 bytes, which are as many tokens.
  static std::string Text(size_t number) {
    static const std::string held_out =
        client::ReadFile(LONGSTREAM_SOURCE_DIR "/models/demo/heldout.txt");
    return held_out.substr(100 * number, 60);
  }

  // Writes a file of `count` prompts; `add` adds fields to each. Returns its path.
  std::string Prompts(size_t count, const json& add = json::object()) const {
    std::string lines;
    for (size_t i = 0; i < count; ++i) {
      json prompt = {{"id", "p" + std::to_string(i)}, {"text", Text(i)}};
      prompt.update(add);
      lines += prompt.dump() + "\n";
    }
    return directory_.Write("prompts.jsonl", lines);
  }

  // A whole command for the file of prompts.
  Strings Command(const std::string& arms, const Strings& more = {},
                  const std::string& time_tokens = "0", const std::string& plan = "20") const {
    Strings command = {"compare",
                       "-a",
                       arms,
                       "--prompts",
                       Path("prompts.jsonl"),
                       "--json",
                       Report(),
                       "--plan",
                       plan,
                       "-n",
                       "8",
                       "-t",
                       "0",
                       "--time-tokens",
                       time_tokens};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  json ReadReport() const { return json::parse(client::ReadFile(Report())); }

  // The report without the time of the day.
  json ReadResults() const {
    json report = ReadReport();
    report.erase("measured_at");
    return report;
  }

  const TemporaryDirectory directory_;
};

size_t Lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return static_cast<size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

TEST_F(PromptSetTest, NumbersAgreeWithScoreAndWithASingleComparison) {
  Prompts(3);
  const ClientRun run =
      RunOk(Command("dense,quick", {"--prompt-from", "0", "--html", Path("report.html")}));
  EXPECT_THAT(run.out, HasSubstr("Interim, no verdict (3 prompts, 20 planned): quick"));
  EXPECT_THAT(run.out, HasSubstr("quick against dense  verdict"));
  EXPECT_THAT(run.out, HasSubstr("written: " + Path("report.html") + ", " + Report()));
  EXPECT_THAT(client::ReadFile(Path("report.html")), HasSubstr("<!DOCTYPE html>"));
  EXPECT_FALSE(std::filesystem::exists(Partial()));
  const json report = ReadReport();
  EXPECT_EQ(report["arms"][0]["name"], "dense");
  EXPECT_THAT(report["arms"][0]["version"], HasSubstr("dense on cpu"));
  EXPECT_EQ(report["arms"][0]["tokenizer"], report["arms"][1]["tokenizer"]);
  EXPECT_EQ(report["latency"], "not measured");
  ASSERT_EQ(report["prompts"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json& prompt = report["prompts"][i];
    EXPECT_EQ(prompt["id"], "p" + std::to_string(i));
    const std::string text = Text(i);
    double log_prob[2];
    for (const size_t arm : {size_t{0}, size_t{1}}) {
      v1::ScoreRequest request;
      request.set_model(arm == 0 ? "dense" : "quick");
      request.mutable_input()->set_text(text);
      const v1::ScoreSummary score = connection_.Score(request);
      log_prob[arm] = score.sum_log_prob() / static_cast<double>(score.tokens());
      EXPECT_EQ(prompt["arms"][arm]["tokens"], score.tokens());
      // A token is a byte.
      EXPECT_NEAR(prompt["arms"][arm]["bits_per_byte"], -log_prob[arm] / std::log(2.0), 1e-12);
    }
    const json& values = prompt["arms"][1]["against_baseline"];
    EXPECT_NEAR(values["log_prob"], log_prob[1] - log_prob[0], 1e-12);
    const json single = RunJson({"compare", "-a", "dense,quick", "--prompt-from", "0", text});
    EXPECT_NEAR(
        values["kl"],
        single["pairs"][0]["sum_kl"].get<double>() / single["pairs"][0]["rows"].get<double>(),
        1e-12);
  }
}

TEST_F(PromptSetTest, EqualArmsReadTheAnswersOfTheFirst) {
  Prompts(2);
  RunOk(Command("dense,dense"));
  const json report = ReadReport();
  EXPECT_TRUE(report["teacher_forced"]);
  EXPECT_EQ(report["forced_by"], "the answers of dense");
  EXPECT_EQ(report["arms"][1]["name"], "dense (2)");
  for (const json& prompt : report["prompts"]) {
    EXPECT_EQ(prompt["tokens"], 60);
    EXPECT_EQ(prompt["arms"][1]["tokens"], 8);
    EXPECT_EQ(prompt["arms"][1]["against_baseline"]["kl"], 0.0);
    EXPECT_EQ(prompt["arms"][1]["against_baseline"]["log_prob"], 0.0);
    EXPECT_EQ(prompt["arms"][0]["text"], prompt["arms"][1]["text"]);
  }
}

TEST_F(PromptSetTest, ContinuationsAreRead) {
  Prompts(2, {{"continuation", "return x\n"}});
  RunOk(Command("dense,quick"));
  const json report = ReadReport();
  EXPECT_EQ(report["forced_by"], "the continuations in prompts.jsonl");
  EXPECT_EQ(report["prompts"][1]["arms"][1]["text"], "return x\n");
  EXPECT_EQ(report["prompts"][1]["arms"][0]["bytes"]["state"], 0);
  EXPECT_GT(report["prompts"][1]["arms"][0]["bytes"]["kv"], 0);
}

TEST_F(PromptSetTest, LatenciesAreThoseOfATurnOfEachArm) {
  Prompts(2);
  RunOk(Command("dense,quick", {"--free-running", "--min-effect", "itl=1.5"}, "3"));
  const json report = ReadReport();
  EXPECT_FALSE(report["teacher_forced"]);
  EXPECT_THAT(report["latency"], HasSubstr("of 3 tokens"));
  EXPECT_DOUBLE_EQ(report["plan"]["minimum_effects"]["itl"], std::log(1.5));
  for (const json& prompt : report["prompts"]) {
    for (const json& arm : prompt["arms"]) {
      EXPECT_GT(arm["ttft_seconds"], 0.0);
      EXPECT_GT(arm["itl_seconds_p50"], 0.0);
    }
  }
}

// The first run computes all prompts but cannot write its page. Its file is then cut within a line,
// as if it had been killed.
TEST_F(PromptSetTest, AResumedComparisonEndsLikeAnUndisturbedOne) {
  Prompts(6);
  RunOk(Command("dense,quick", {"--seed", "5"}));
  const json undisturbed = ReadResults();
  std::filesystem::remove(Report());

  ExpectFailure(4, Command("dense,quick", {"--seed", "5", "--html", "/nonexistent/report.html"}),
                "/nonexistent/report.html.new cannot be opened");
  std::string kept = client::ReadFile(Partial());
  ASSERT_EQ(Lines(Partial()), 7u);
  size_t end = 0;
  for (int line = 0; line < 3; ++line) end = kept.find('\n', end) + 1;
  directory_.Write("report.json.partial", kept.substr(0, end + 20));
  std::filesystem::remove(Report());

  ExpectFailure(2, Command("dense,quick", {"--seed", "6"}),
                "is an unfinished comparison with other sampling: there");
  ExpectFailure(2, Command("quick,dense", {"--seed", "5"}),
                "with other arms: there \"dense, quick\"");
  ASSERT_FALSE(std::filesystem::exists(Report()));

  const ClientRun run = RunOk(Command("dense,quick", {"--seed", "5"}));
  EXPECT_THAT(run.err, HasSubstr("going on after 2 of 6 prompts"));
  EXPECT_EQ(ReadResults(), undisturbed);
  EXPECT_FALSE(std::filesystem::exists(Partial()));
}

TEST_F(PromptSetTest, AnInterruptKeepsThePromptsThatHaveEnded) {
  Prompts(500);
  ClientProcess client(Arguments(Command("slow,slow", {}, "0", "500")));
  client.WaitUntilItHandles(SIGINT);
  while (!std::filesystem::exists(Partial()) || Lines(Partial()) < 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), 130);
  EXPECT_THAT(client.err(), HasSubstr(std::to_string(Lines(Partial()) - 1) +
                                      " of 500 prompts have ended. They are kept in " + Partial()));
  EXPECT_FALSE(std::filesystem::exists(Report()));
}

TEST_F(PromptSetTest, AFailedCallNamesThePrompt) {
  directory_.Write("prompts.jsonl", "{\"text\": \"a\"}\n{\"tokens\": [1, 70000]}\n");
  const ClientRun run = Run(Command("dense,quick"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("prompt 2 (line 2) failed"));
  EXPECT_THAT(run.err, HasSubstr("1 of 2 prompts have ended"));
  EXPECT_THAT(run.err, HasSubstr("INVALID_ARGUMENT"));
  EXPECT_EQ(Lines(Partial()), 2u);
}

TEST_F(PromptSetTest, AFailedFirstPromptLeavesNothing) {
  directory_.Write("prompts.jsonl", "{\"tokens\": [1, 70000]}\n");
  const ClientRun run = Run(Command("dense,quick"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("longstream: prompt 1 (line 1) failed: INVALID_ARGUMENT: "));
  EXPECT_FALSE(std::filesystem::exists(Partial()));
  directory_.Write("prompts.jsonl", "{\"tokens\": [1, 70]}\n");
  RunOk(Command("dense,quick"));
}

TEST_F(PromptSetTest, OnlyTheReportsThatAreWantedAreWritten) {
  const std::string prompts = Prompts(2);
  const Strings command = {"compare", "-a", "dense,quick",   "--prompts", prompts,
                           "-n",      "4",  "--time-tokens", "0"};
  const auto with = [&command](const Strings& more) {
    Strings all = command;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto files = [this] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  };
  const ClientRun nothing = RunOk(command);
  EXPECT_THAT(nothing.out, HasSubstr("quick against dense  verdict"));
  EXPECT_THAT(nothing.out, testing::Not(HasSubstr("written:")));
  for (const Strings& flag :
       {Strings{"--json"}, Strings{"--json", "-"}, Strings{"--report-json", "-"}}) {
    EXPECT_EQ(json::parse(RunOk(with(flag)).out)["prompts"].size(), 2u);
  }
  EXPECT_THAT(files(), testing::UnorderedElementsAre("prompts.jsonl"));
  EXPECT_FALSE(std::filesystem::exists("-"));
  EXPECT_THAT(RunOk(with({"--html", Path("page.html")})).out,
              HasSubstr("written: " + Path("page.html") + "\n"));
  EXPECT_THAT(files(), testing::UnorderedElementsAre("prompts.jsonl", "page.html"));
  RunOk(with({"--report-json", Report()}));
  EXPECT_EQ(ReadReport()["prompts"].size(), 2u);
}

TEST_F(PromptSetTest, TheDemoHasPrompts) {
  const ClientRun run =
      RunOk({"compare", "-a", "dense,quick", "--prompts",
             LONGSTREAM_SOURCE_DIR "/models/demo/prompts.jsonl", "-n", "2", "--time-tokens", "0"});
  EXPECT_THAT(run.out, HasSubstr("quick against dense"));
}

TEST_F(PromptSetTest, ATerminalShowsTheProgress) {
  Prompts(2);
  ClientProcess client(Arguments(Command("quick,quick")), ClientProcess::Terminal::kYes);
  EXPECT_EQ(client.Wait(), 0);
  EXPECT_THAT(client.out(), HasSubstr("comparing ["));
  EXPECT_THAT(client.out(), HasSubstr("] 1/2 prompts, about "));
}

TEST_F(PromptSetTest, WrongUsage) {
  const std::string prompts = Prompts(2);
  const auto command = [&](const Strings& more) {
    Strings all = {"compare", "-a", "dense,quick", "--prompts", prompts};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ExpectFailure(2, command({"--json", Report(), "--report-json", Report()}),
                "--json: excludes --report-json");
  ExpectFailure(2, {"compare", "-a", "dense,quick", "--report-json", "x", "y"},
                "--report-json requires --prompts");
  ExpectFailure(2, command({"--json", Report(), "--min-effect", "speed=1"}),
                "--min-effect: speed=1 is not METRIC=VALUE");
  ExpectFailure(2, command({"--json", Report(), "--answer-of", "2"}),
                "--answer-of: there are 2 arms, numbered from 0");
  ExpectFailure(2, command({"--json", Report(), "--force-text", "x"}), "excludes --prompts");
  ExpectFailure(2, command({"--json", Report(), "--free-running", "--answer-of", "0"}), "excludes");
  ExpectFailure(2, {"compare", "-a", "dense,quick", "--html", "x", "y"},
                "--html requires --prompts");
  ExpectFailure(4, command({"--json", "/nonexistent/report.json"}),
                "/nonexistent/report.json.partial cannot be opened");
  EXPECT_FALSE(std::filesystem::exists(Partial()));

  directory_.Write("prompts.jsonl",
                   "{\"text\": \"a\", \"continuation\": \"b\"}\n{\"text\": \"c\"}\n");
  ExpectFailure(2, command({"--json", Report()}),
                "line 1: continuation: all prompts need one or none, and line 2 has none");
  directory_.Write("prompts.jsonl", "{\"text\": \"a\", \"continuation\": \"b\"}\n");
  ExpectFailure(2, command({"--json", Report(), "--free-running"}),
                "line 1: continuation: leave out --answer-of");
  directory_.Write("prompts.jsonl", "{\"text\": 1}\n");
  ExpectFailure(2, command({"--json", Report()}),
                prompts + " line 1: text: expected a string, found number");
}

// Without --prompts, --json is a flag, wherever it stands.
TEST_F(PromptSetTest, JsonStaysAFlagOfASingleComparison) {
  const Strings command = {"compare", "-a", "quick,quick", "-n", "2"};
  for (const Strings& end :
       {Strings{"--json", "x"}, Strings{"x", "--json"}, Strings{"--json", "--seed", "1", "x"}}) {
    Strings all = command;
    all.insert(all.end(), end.begin(), end.end());
    EXPECT_EQ(json::parse(RunOk(all).out)["rows"].size(), 2u) << testing::PrintToString(end);
  }
  ExpectFailure(2, {"compare", "-a", "quick,quick", "--json", "x", "y"}, "there are two prompts");
}

}  // namespace
}  // namespace longstream
