// `longstream generate`: runs one turn.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/commands/turn_options.h"
#include "client/commands/turn_output.h"
#include "client/commands/twin_output.h"
#include "client/output.h"

namespace longstream::client {
namespace {

struct GenerateOptions {
  TurnOptions turn;
  std::string prompt;
  std::string file;
  std::vector<int32_t> tokens;
  bool parse_special = false;
  std::optional<uint64_t> expected_position;
  std::string on_abort = "rollback";
  bool log_probs = false;
  uint32_t top_log_probs = 0;
};

v1::GenerateRequest Request(const GenerateOptions& options) {
  v1::GenerateRequest request;
  options.turn.Fill(&request);
  const std::string prompt =
      options.file.empty() ? options.prompt : ReadFile(options.file, "--file");
  if (!prompt.empty()) request.mutable_input()->set_text(prompt);
  for (const int32_t id : options.tokens) request.mutable_input()->mutable_tokens()->add_ids(id);
  request.set_parse_special(options.parse_special);
  if (options.expected_position) request.set_expected_position(*options.expected_position);
  request.set_on_abort(options.on_abort == "keep" ? v1::ON_ABORT_KEEP : v1::ON_ABORT_ROLLBACK);
  request.set_log_probs(options.log_probs || options.top_log_probs > 0);
  request.set_top_log_probs(options.top_log_probs);
  return request;
}

void Generate(const Global& global, const GenerateOptions& options) {
  v1::GenerateRequest request = Request(options);
  if (!request.has_input() && !options.turn.continues_session()) {
    throw CLI::ValidationError("prompt", "give a prompt, --file or --tokens");
  }
  Connection connection = options.turn.Connect(global);
  const Session session = options.turn.Open(connection, request.input());
  request.set_session_id(session.id());
  const Generation generation =
      StreamTurn(connection, request, global.json ? Show::kNothing : Show::kText);
  if (global.json) {
    Print(TurnJson(generation, session.opened()) + "\n");
    return;
  }
  if (!options.turn.keeps_session()) PrintIncomplete(generation);
  Print("\n");
  PrintLogProbs(generation);
  PrintTwinTable(generation);
  FlushOutput();
  PrintUsage(generation, session.opened());
  PrintTwinSummary(generation);
}

}  // namespace

void AddGenerate(CLI::App* app, const Global* global) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app->add_subcommand("generate", "Generate text from a prompt");
  options->turn.AddTo(command);
  CLI::Option* prompt = command->add_option("prompt", options->prompt, "the prompt");
  CLI::Option* file =
      command->add_option("-f,--file", options->file, "file with the prompt; -: standard input")
          ->excludes(prompt);
  command->add_option("--tokens", options->tokens, "the prompt as token ids: ID,ID,...")
      ->delimiter(',')
      ->check(WholeNumber(0, std::numeric_limits<int32_t>::max()))
      ->allow_extra_args(false)
      ->excludes(prompt)
      ->excludes(file);
  command->add_flag("--parse-special", options->parse_special,
                    "special tokens that the prompt spells out become their ids");
  command
      ->add_option(
          "--expected-position", options->expected_position,
          "fail unless the session is at this position, so that a retry is not applied twice")
      ->check(WholeNumber());
  command
      ->add_option("--on-abort", options->on_abort,
                   "whether the session keeps the tokens of an interrupted turn: rollback or keep")
      ->check(CLI::IsMember({"rollback", "keep"}))
      ->capture_default_str();
  command->add_flag("--log-probs", options->log_probs, "print the log-probability of each token");
  command
      ->add_option("--top-log-probs", options->top_log_probs,
                   "also print this many most probable tokens at each step, at most 20")
      ->check(WholeNumber(0, kMaxTopLogProbs));
  command->footer(
      "Examples:\n"
      "  longstream generate -m hypenet -n 100 -t 0.8 'def main():'\n"
      "  longstream generate --json -f prompt.txt | jq .text\n"
      "  longstream generate -m dense --twin hypenet 'def main():'\n"
      "  longstream generate --tokens 100,101,102 --top-log-probs 5 --stop-id 10");
  command->callback([=] { Generate(*global, *options); });
}

}  // namespace longstream::client
