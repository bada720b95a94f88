// `longstream compare`: runs several models on one text, or on a file of prompts, and compares them
// token by token.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/commands/turn_options.h"
#include "client/commands/turn_output.h"
#include "client/compare/command/compare_output.h"
#include "client/compare/command/prompt_set.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

// The server's limits.
constexpr size_t kLeastArms = 2;
constexpr size_t kMostArms = 8;

constexpr uint64_t kMostTimeTokens = 1 << 20;

struct CompareOptions {
  TurnOptions turn;
  std::vector<std::string> arms;
  std::string prompt;
  std::string file;
  std::string session;
  std::string force_text;
  bool has_force_text = false;  // also an empty one, which the server refuses
  std::string force_file;
  std::optional<uint32_t> answer_of;
  std::optional<uint64_t> prompt_from;
  uint32_t top_log_probs = 0;
  bool parse_special = false;
  std::vector<std::string> json;  // at most one: --json with or without a value
  PromptSetOptions prompt_set;
};

// --json is the flag of all commands, and the word behind it is the prompt. With a prompt set, that
// word names the file of the report, as --report-json does.
void ReadJsonOption(bool given, CompareOptions* options, Global* global) {
  const std::string value = options->json.empty() ? "" : options->json.front();
  std::string& report = options->prompt_set.json;
  if (!options->prompt_set.prompts.empty() && !value.empty()) {
    if (!report.empty()) throw CLI::ValidationError("--json", "excludes --report-json");
    report = value;
  } else if (given) {
    global->json = true;
  }
  if (report == "-") {
    report.clear();
    global->json = true;
  }
  if (!options->prompt_set.prompts.empty() || value.empty()) return;
  if (!options->prompt.empty() || !options->file.empty()) {
    throw CLI::ValidationError("prompt", "there are two prompts; the second is " + value);
  }
  options->prompt = value;
}

v1::CompareRequest Request(const CompareOptions& options) {
  v1::GenerateRequest turn;
  options.turn.Fill(&turn);
  v1::CompareRequest request;
  for (const std::string& arm : options.arms) request.add_arms()->set_model(arm);
  const std::string prompt =
      options.file.empty() ? options.prompt : ReadFile(options.file, "--file");
  if (!prompt.empty()) request.mutable_input()->set_text(prompt);
  request.set_session_id(options.session);
  request.mutable_sampling()->Swap(turn.mutable_sampling());
  request.mutable_stop()->Swap(turn.mutable_stop());
  request.set_max_tokens(turn.max_tokens());
  request.set_priority(turn.priority());
  request.set_top_log_probs(options.top_log_probs);
  request.set_parse_special(options.parse_special);
  if (options.has_force_text) request.mutable_forced()->set_text(options.force_text);
  if (!options.force_file.empty()) {
    request.mutable_forced()->set_text(ReadFile(options.force_file, "--force-file"));
  }
  if (options.answer_of) request.mutable_forced()->set_answer_of(*options.answer_of);
  if (options.prompt_from) request.mutable_forced()->set_prompt_from(*options.prompt_from);
  return request;
}

void Compare(const Global& global, const CompareOptions& options) {
  // CLI11 does not count what a delimiter divides.
  if (options.arms.size() < kLeastArms || options.arms.size() > kMostArms) {
    throw CLI::ValidationError("--arms", "expected " + std::to_string(kLeastArms) + " to " +
                                             std::to_string(kMostArms) + " models, found " +
                                             std::to_string(options.arms.size()));
  }
  if (options.file == "-" && options.force_file == "-") {
    throw CLI::ValidationError("--force-file", "--file reads standard input already");
  }
  const v1::CompareRequest request = Request(options);
  if (!options.prompt_set.prompts.empty()) {
    return ComparePromptSet(global, options.prompt_set, request);
  }
  if (!request.has_input() && options.session.empty() && !request.forced().has_text()) {
    throw CLI::ValidationError("prompt", "give a prompt, --file or --prompts");
  }
  Connection connection = ConnectToAll(global, options.arms);
  ComparedText comparison;
  connection.Compare(request,
                     [&](const v1::CompareResponse& response) { comparison.Add(response); });
  if (global.json) return Print(Dump(ToJson(comparison), 2) + "\n");
  PrintComparison(comparison);
}

void AddForced(CLI::App* command, CompareOptions* options) {
  CLI::Option* const text = command->add_option("--force-text", options->force_text,
                                                "all arms read this text and generate nothing");
  CLI::Option* const file = command
                                ->add_option("--force-file", options->force_file,
                                             "file with this text; -: standard input")
                                ->excludes(text);
  CLI::Option* const answer =
      command
          ->add_option("--answer-of", options->answer_of,
                       "all arms read the answer of this arm: its number, from 0")
          ->check(WholeNumber(0, kMostArms - 1))
          ->excludes(text)
          ->excludes(file);
  command
      ->add_option("--prompt-from", options->prompt_from,
                   "compare the prompt itself, from this token on; 0: the whole prompt")
      ->check(WholeNumber())
      ->excludes(text)
      ->excludes(file)
      ->excludes(answer);
}

// Adds the options of prompt sets. `others`: options of a single prompt.
void AddPromptSet(CLI::App* command, const std::vector<CLI::Option*>& others,
                  PromptSetOptions* options) {
  CLI::Option* const prompts = command->add_option(
      "--prompts", options->prompts,
      "compare on all prompts of this file, a JSON object a line with text, tokens or messages, "
      "and "
      "perhaps id and continuation; by default the arms read the continuation, or the first arm's "
      "answer");
  for (CLI::Option* const other : others) prompts->excludes(other);
  command
      ->add_option("--report-json", options->json,
                   "with --prompts: write the report to this file; -: standard output")
      ->needs(prompts);
  command->add_option("--html", options->html, "with --prompts: write the report to this page")
      ->needs(prompts);
  command
      ->add_option("--plan", options->plan,
                   "with --prompts: the planned number of prompts, at which verdicts are given; "
                   "default: all in the file")
      ->check(WholeNumber(1))
      ->needs(prompts);
  command
      ->add_option("--min-effect", options->minimum_effects,
                   "with --prompts: METRIC=VALUE, the least difference that matters, such as "
                   "kl=0.02 or itl=1.1; may be repeated")
      ->allow_extra_args(false)
      ->needs(prompts);
  command
      ->add_option("--time-tokens", options->time_tokens,
                   "with --prompts: generate this many tokens on each arm to measure latencies; 0: "
                   "measure none")
      ->check(WholeNumber(0, kMostTimeTokens))
      ->capture_default_str()
      ->needs(prompts);
  CLI::Option* const free_running = command->add_flag(
      "--free-running", options->free_running, "with --prompts: each arm reads its own answer");
  free_running->needs(prompts)
      ->excludes(command->get_option("--answer-of"))
      ->excludes(command->get_option("--prompt-from"));
}

}  // namespace

void AddCompare(CLI::App* app, const Global* global) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app->add_subcommand(
      "compare", "Run several models on the same texts and compare their tokens");
  command
      ->add_option("-a,--arms", options->arms,
                   "the models: NAME,NAME,...; the others are compared with the first")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  CLI::Option* prompt = command->add_option("prompt", options->prompt, "the prompt of all arms");
  CLI::Option* file =
      command->add_option("-f,--file", options->file, "file with the prompt; -: standard input")
          ->excludes(prompt);
  CLI::Option* session = command->add_option(
      "-s,--session", options->session,
      "the prompt begins with the tokens of this session, which stays as it is");
  CLI::Option* json =
      command
          ->add_option("--json", options->json,
                       "machine-readable output; with --prompts, a word behind it is as "
                       "that of --report-json")
          ->expected(0, 1)
          ->allow_extra_args(false);
  AddForced(command, options.get());
  options->turn.AddSamplingTo(command);
  CLI::Option* top =
      command
          ->add_option("--top-log-probs", options->top_log_probs,
                       "with --json: this many most probable tokens at each step, at most 20")
          ->check(WholeNumber(0, kMaxTopLogProbs));
  AddPromptSet(command,
               {prompt, file, session, top, command->get_option("--force-text"),
                command->get_option("--force-file")},
               &options->prompt_set);
  command->add_flag("--parse-special", options->parse_special,
                    "special tokens that the texts spell out become their ids");
  command->footer(
      "Examples:\n"
      "  longstream compare --arms dense,hypenet -n 100 'def main():'\n"
      "  head -c 4096 book.txt | longstream compare --arms dense,hwfa2,hypenet --prompt-from 0 -f "
      "-\n"
      "  longstream compare --arms dense,hypenet --answer-of 0 --json 'def main():' | jq .pairs\n"
      "  longstream compare --arms dense,hypenet --prompts models/demo/prompts.jsonl "
      "--html report.html --report-json report.json");
  command->callback([=] {
    Global all = *global;
    ReadJsonOption(json->count() > 0, options.get(), &all);
    options->has_force_text = command->get_option("--force-text")->count() > 0;
    Compare(all, *options);
  });
}

}  // namespace longstream::client
