// Runs the prompts one after the other.
#include "client/compare/command/prompt_set.h"

#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <map>
#include <utility>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/compare/analysis.h"
#include "client/compare/command/prompt_run.h"
#include "client/compare/command/prompts.h"
#include "client/compare/page/report_html.h"
#include "client/compare/report_json.h"
#include "client/compare/report_text.h"
#include "client/compare/state_file.h"
#include "client/interrupt.h"
#include "client/output.h"

namespace longstream::client {
namespace {

// Everything that is known before the first prompt runs.
struct Plan {
  std::vector<Prompt> prompts;
  std::string digest;          // of the prompts
  v1::CompareRequest request;  // without the prompt
  bool has_continuations = false;
  uint32_t time_tokens = 0;
  Comparison comparison;  // without prompts and tokenizers
};

// Shows how many prompts have ended, if standard error is a terminal.
class ProgressBar {
 public:
  ProgressBar(size_t total, size_t done)
      : shows_(isatty(STDERR_FILENO) != 0), total_(total), first_(done) {
    Show(done);
  }
  ~ProgressBar() {
    if (shows_) std::cerr << "\r" << std::string(kWidth + 60, ' ') << "\r" << std::flush;
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(size_t done) const {
    if (!shows_) return;
    const size_t marks = kWidth * done / total_;
    std::cerr << "\rcomparing [" << std::string(marks, '#') << std::string(kWidth - marks, ' ')
              << "] " << done << "/" << total_ << " prompts";
    if (done > first_) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
      const double left =
          spent.count() / static_cast<double>(done - first_) * static_cast<double>(total_ - done);
      std::cerr << ", about " << std::lround(left) << " s left    ";
    }
    std::cerr << std::flush;
  }

 private:
  static constexpr size_t kWidth = 30;

  const bool shows_;
  const size_t total_;
  const size_t first_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Reads the planned prompts.
void ReadPrompts(const PromptSetOptions& options, Plan* plan) {
  const std::string file = ReadFile(options.prompts, "--prompts");
  try {
    plan->prompts = ParsePrompts(file);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError("--prompts", options.prompts + " " + error.what());
  }
  const uint64_t planned = options.plan.value_or(plan->prompts.size());
  plan->comparison.plan.prompts = planned;
  if (plan->prompts.size() > planned) plan->prompts.resize(planned);
  std::string content;
  for (const Prompt& prompt : plan->prompts) {
    const std::string parts[] = {prompt.id, prompt.input.SerializeAsString(),
                                 prompt.continuation.value_or("")};
    for (const std::string& part : parts) content += std::to_string(part.size()) + ":" + part;
  }
  plan->digest = std::to_string(plan->prompts.size()) + ", digest " + Digest(content);
}

// Decides which tokens the arms are compared on.
void ChooseTokens(const PromptSetOptions& options, Plan* plan) {
  const auto has = [](const Prompt& prompt) { return prompt.continuation.has_value(); };
  const auto first = std::find_if(plan->prompts.begin(), plan->prompts.end(), has);
  const bool is_chosen = options.free_running || plan->request.has_forced();
  if (first != plan->prompts.end()) {
    const auto without = std::find_if_not(plan->prompts.begin(), plan->prompts.end(), has);
    const auto line = [](const Prompt& prompt) { return "line " + std::to_string(prompt.line); };
    if (is_chosen || without != plan->prompts.end()) {
      throw CLI::ValidationError(
          "--prompts",
          options.prompts + " " + line(*first) + ": continuation: " +
              (is_chosen ? "leave out --answer-of, --prompt-from and --free-running"
                         : "all prompts need one or none, and " + line(*without) + " has none"));
    }
    plan->has_continuations = true;
    plan->comparison.forced_by = "the continuations in " + BaseName(options.prompts);
  } else if (!is_chosen) {
    plan->request.mutable_forced()->set_answer_of(0);
  }
  plan->comparison.teacher_forced = !options.free_running;
}

// Names the source of the tokens. REQUIRES: the arms are known.
std::string ForcedBy(const v1::CompareForced& forced, const std::vector<ComparedArm>& arms) {
  if (forced.kind_case() == v1::CompareForced::kPromptFrom) {
    return "the prompts themselves, from token " + std::to_string(forced.prompt_from()) + " on";
  }
  return "the answers of " + arms[forced.answer_of()].name;
}

void DescribeArms(const Global& global, Connection& connection, Plan* plan) {
  std::map<std::string, int> count;
  for (const v1::CompareArm& arm : plan->request.arms()) {
    const v1::Model model = connection.Model(arm.model());
    const int number = ++count[arm.model()];
    ComparedArm& compared = plan->comparison.arms.emplace_back();
    compared.name = arm.model() + (number > 1 ? " (" + std::to_string(number) + ")" : "");
    compared.model = model.name();
    compared.version = model.fingerprint() + ", " + model.backend() + " on " + model.device() +
                       ", kernels " + model.kernels();
  }
  plan->comparison.server = global.server;
}

std::string TextOf(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

Plan MakePlan(const Global& global, const PromptSetOptions& options, v1::CompareRequest request,
              Connection& connection) {
  Plan plan;
  plan.request = std::move(request);
  ComparisonPlan& statistics = plan.comparison.plan;
  for (const std::string& text : options.minimum_effects) {
    const std::string error = SetMinimumEffect(text, &statistics.minimum_effects);
    if (!error.empty()) throw CLI::ValidationError("--min-effect", error);
  }
  // One seed for the sampling of all prompts and for the bootstrap, so that a comparison can be
  // repeated, and an interrupted one ends as if it had not been.
  v1::Sampling& sampling = *plan.request.mutable_sampling();
  if (sampling.has_seed()) statistics.seed = sampling.seed();
  sampling.set_seed(statistics.seed);
  plan.request.set_top_log_probs(1);  // gives the text of each arm's most probable token
  plan.time_tokens = options.time_tokens;
  plan.comparison.latency = options.time_tokens == 0
                                ? "not measured"
                                : "of " + std::to_string(options.time_tokens) +
                                      " tokens that each arm generates behind the prompt, one arm "
                                      "at a time, measured by the server; between tokens: the mean "
                                      "of a prompt";
  ReadPrompts(options, &plan);
  ChooseTokens(options, &plan);
  DescribeArms(global, connection, &plan);
  if (plan.request.has_forced()) {
    const v1::CompareForced& forced = plan.request.forced();
    if (forced.answer_of() >= plan.comparison.arms.size()) {
      throw CLI::ValidationError(
          "--answer-of",
          "there are " + std::to_string(plan.comparison.arms.size()) + " arms, numbered from 0");
    }
    plan.comparison.forced_by = ForcedBy(forced, plan.comparison.arms);
  }
  return plan;
}

// Everything that the results depend on. An interrupted comparison goes on only if all are equal.
Conditions ConditionsOf(const Plan& plan) {
  const Comparison& comparison = plan.comparison;
  std::string arms;
  for (const ComparedArm& arm : comparison.arms) arms += (arms.empty() ? "" : ", ") + arm.name;
  Conditions conditions = {
      {"arms", arms},
      {"prompts", plan.digest},
      {"planned prompts", std::to_string(comparison.plan.prompts)},
      {"tokens", comparison.teacher_forced ? comparison.forced_by : "free-running"},
      {"maximum of tokens", std::to_string(plan.request.max_tokens())},
      {"sampling", TextOf(plan.request.sampling())},
      {"stop rule", TextOf(plan.request.stop())},
      {"special tokens", plan.request.parse_special() ? "parsed" : "not parsed"},
      {"latency", comparison.latency}};
  for (const Metric metric : kAllMetrics) {
    conditions.emplace_back(
        "minimum effect of " + std::string(Info(metric).key),
        std::to_string(comparison.plan.minimum_effects[static_cast<size_t>(metric)]));
  }
  for (const ComparedArm& arm : comparison.arms) {
    conditions.emplace_back("version of " + arm.name, arm.version);
  }
  return conditions;
}

// Generates behind the prompt in a new session, which no other turn knows.
v1::TurnUsage RunTurn(Connection& connection, const Plan& plan, const Prompt& prompt,
                      const std::string& model, uint32_t tokens) {
  const Session session = OpenSession(connection, model);
  v1::GenerateRequest request;
  request.set_session_id(session.id());
  *request.mutable_input() = prompt.input;
  *request.mutable_sampling() = plan.request.sampling();
  request.mutable_stop()->set_ignore_eos(true);  // all arms generate as many tokens
  request.set_max_tokens(tokens);
  request.set_parse_special(plan.request.parse_special());
  request.set_priority(plan.request.priority());
  return connection.Collect(request).finish.usage();
}

FinishedPrompt RunPrompt(Connection& connection, const Plan& plan, size_t number) {
  const Prompt& prompt = plan.prompts[number];
  v1::CompareRequest request = plan.request;
  *request.mutable_input() = prompt.input;
  if (plan.has_continuations) request.mutable_forced()->set_text(*prompt.continuation);
  ComparedText text;
  connection.Compare(request, [&](const v1::CompareResponse& response) { text.Add(response); });
  FinishedPrompt finished = ToFinishedPrompt(prompt.id, text);
  const size_t arms = finished.run.arms.size();
  for (size_t i = 0; i < arms && plan.time_tokens > 0; ++i) {
    const size_t arm = (number + i) % arms;  // no arm is always the first
    ArmRun& run = finished.run.arms[arm];
    if (!run.error.empty()) continue;
    SetLatencies(
        RunTurn(connection, plan, prompt, plan.comparison.arms[arm].model, plan.time_tokens), &run);
  }
  return finished;
}

// The first turn of a model on an idle server takes longer than the others. Nobody times it.
void WarmUp(Connection& connection, const Plan& plan, const Prompt& prompt) {
  if (plan.time_tokens == 0) return;
  for (const ComparedArm& arm : plan.comparison.arms) {
    RunTurn(connection, plan, prompt, arm.model, 1);
  }
}

// Says on standard error what is kept. A file without prompts is of no use, and is removed.
void SayHowToGoOn(StateFile* file, size_t total) {
  const StateFile& state = *file;
  if (state.finished().empty()) return file->Remove();
  if (state.path().empty()) {
    std::cerr << "longstream: " << state.finished().size() << " of " << total
              << " prompts have ended. With --report-json FILE they would have been kept.\n";
    return;
  }
  std::cerr << "longstream: " << state.finished().size() << " of " << total
            << " prompts have ended. They are kept in " << state.path()
            << "; the same command goes on there.\n";
}

// Runs the prompts that are not in the state file.
void RunPrompts(Connection& connection, const Plan& plan, StateFile* state) {
  const size_t total = plan.prompts.size();
  const size_t first = state->finished().size();
  if (first > 0) std::cerr << "going on after " << first << " of " << total << " prompts\n";
  size_t number = first;
  try {
    const ProgressBar bar(total, first);
    if (number < total) WarmUp(connection, plan, plan.prompts[number]);
    for (; number < total && !Interrupted(); ++number) {
      state->Append(RunPrompt(connection, plan, number));
      bar.Show(number + 1);
    }
  } catch (const CallError& error) {
    if (!Interrupted()) {
      std::cerr << "longstream: prompt " << plan.prompts[number].id << " (line "
                << plan.prompts[number].line << ") failed: " << error.what() << "\n";
      SayHowToGoOn(state, total);
      throw ToldFailure{error.exit_code()};
    }
  }
  if (!Interrupted()) return;
  SayHowToGoOn(state, total);
  throw Interruption();
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc;
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
  return text;
}

// Puts the finished prompts into the comparison. Throws CLI::ValidationError if they are not those
// of the plan, or if a tokenizer changed between them.
Comparison Assemble(const Plan& plan, const StateFile& state) {
  Comparison comparison = plan.comparison;
  comparison.measured_at = Now();
  for (const FinishedPrompt& prompt : state.finished()) {
    const size_t arms = comparison.arms.size();
    const std::string& id = plan.prompts[comparison.prompts.size()].id;
    bool fits = prompt.run.id == id && prompt.run.arms.size() == arms &&
                prompt.run.pairs.size() == arms - 1 && prompt.tokenizers.size() == arms;
    for (size_t arm = 0; fits && arm < arms; ++arm) {
      std::string& tokenizer = comparison.arms[arm].tokenizer;
      if (comparison.prompts.empty()) tokenizer = prompt.tokenizers[arm];
      fits = tokenizer == prompt.tokenizers[arm];
    }
    if (!fits) {
      throw CLI::ValidationError("--report-json", state.path() + " is damaged at prompt " + id +
                                                      "; remove the file to begin anew");
    }
    comparison.prompts.push_back(prompt.run);
  }
  return comparison;
}

void Compare(const Global& global, const PromptSetOptions& options, Connection& connection,
             const Plan& plan) {
  const std::string& report = options.json.empty() ? options.html : options.json;
  StateFile state(report.empty() ? "" : report + ".partial", ConditionsOf(plan));
  if (state.finished().size() > plan.prompts.size()) {
    throw std::invalid_argument(state.path() + " has more prompts than " + options.prompts +
                                "; remove the file to begin anew");
  }
  RunPrompts(connection, plan, &state);
  const Comparison comparison = Assemble(plan, state);
  const Analysis analysis = Analyze(comparison);
  const std::string json = ComparisonJson(comparison, analysis);
  std::string written;
  if (!options.json.empty()) {
    ReplaceFile(options.json, json);
    written = options.json;
  }
  if (!options.html.empty()) {
    ReplaceFile(options.html, ComparisonPage(comparison, analysis));
    written = options.html + (written.empty() ? "" : ", ") + written;
  }
  state.Remove();
  if (global.json) return Print(json);
  Print(ComparisonText(comparison, analysis) + "\n");
  if (!written.empty()) Print("written: " + written + "\n");
}

}  // namespace

void ComparePromptSet(const Global& global, const PromptSetOptions& options,
                      v1::CompareRequest request) {
  std::vector<std::string> models;
  for (const v1::CompareArm& arm : request.arms()) models.push_back(arm.model());
  Connection connection = ConnectToAll(global, models);
  const Plan plan = MakePlan(global, options, std::move(request), connection);
  try {
    Compare(global, options, connection, plan);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError("--report-json", error.what());
  } catch (const FileError& error) {
    std::cerr << "longstream: " << error.what() << "\n";
    throw ToldFailure{kOutputFailed};
  }
}

}  // namespace longstream::client
