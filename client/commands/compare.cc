// `longstream compare`: runs several models on one text and compares them token by token.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/commands.h"
#include "client/commands/compare_output.h"
#include "client/commands/turn_options.h"
#include "client/commands/turn_output.h"
#include "client/input.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

// The server's limits.
constexpr size_t kLeastArms = 2;
constexpr size_t kMostArms = 8;
constexpr uint64_t kMaxTopLogProbs = 20;

struct CompareOptions {
  TurnOptions turn;
  std::vector<std::string> arms;
  std::string prompt;
  std::string file;
  std::string session;
  std::string force_text;
  std::string force_file;
  std::optional<uint32_t> answer_of;
  std::optional<uint64_t> prompt_from;
  uint32_t top_log_probs = 0;
  bool parse_special = false;
};

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
  const std::string text = options.force_file.empty()
                               ? options.force_text
                               : ReadFile(options.force_file, "--force-file");
  if (!text.empty()) request.mutable_forced()->set_text(text);
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
  const v1::CompareRequest request = Request(options);
  Connection connection = Connect(global, options.arms.front());
  Comparison comparison;
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

}  // namespace

void AddCompare(CLI::App* app, const Global* global) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app->add_subcommand("compare", "Run several models on one text and compare their tokens");
  command
      ->add_option("-a,--arms", options->arms,
                   "the models: NAME,NAME,...; the others are compared with the first")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  CLI::Option* prompt = command->add_option("prompt", options->prompt, "the prompt of all arms");
  command->add_option("-f,--file", options->file, "file with the prompt; -: standard input")
      ->excludes(prompt);
  command->add_option("-s,--session", options->session,
                      "the prompt begins with the tokens of this session, which stays as it is");
  AddForced(command, options.get());
  options->turn.AddSamplingTo(command);
  command
      ->add_option("--top-log-probs", options->top_log_probs,
                   "with --json: this many most probable tokens at each step, at most 20")
      ->check(WholeNumber(0, kMaxTopLogProbs));
  command->add_flag("--parse-special", options->parse_special,
                    "special tokens that the texts spell out become their ids");
  command->footer(
      "Examples:\n"
      "  longstream compare --arms dense,hypenet -n 100 'def main():'\n"
      "  head -c 4096 book.txt | longstream compare --arms dense,hwfa2,hypenet --prompt-from 0 -f "
      "-\n"
      "  longstream compare --arms dense,hypenet --answer-of 0 --json 'def main():' | jq .pairs");
  command->callback([=] { Compare(*global, *options); });
}

}  // namespace longstream::client
