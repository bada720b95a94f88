// `longstream generate` and `longstream chat`.
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "client/commands.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateOptions {
  std::string model;
  std::string session;
  std::string prompt;
  std::string file;
  bool keep = false;
  bool parse_special = false;
  SamplingOptions sampling;
};

std::string ReadAll(std::istream& stream) { return {std::istreambuf_iterator<char>(stream), {}}; }

std::string Prompt(const GenerateOptions& options) {
  if (options.file.empty()) return options.prompt;
  if (options.file == "-") return ReadAll(std::cin);
  std::ifstream file(options.file, std::ios::binary);
  if (!file) throw CLI::ValidationError("--file", options.file + " cannot be read");
  return ReadAll(file);
}

const char* ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP_TOKEN:
      return "stop_token";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop_string";
    case v1::FINISH_REASON_MAX_TOKENS:
      return "max_tokens";
    case v1::FINISH_REASON_CONTEXT:
      return "context";
    default:
      return "unknown";
  }
}

// Milliseconds between tokens, on the mean of the whole stream.
double InterTokenMilliseconds(const v1::TurnUsage& usage) {
  const double gaps = static_cast<double>(usage.generated_tokens()) - 1;
  return gaps > 0 ? 1e3 * Seconds(usage.decode_time()) / gaps : 0;
}

Json ToJson(const Generation& generation, const std::string& session) {
  const v1::TurnUsage& usage = generation.finish.usage();
  return {{"session", session},
          {"text", generation.text},
          {"finish_reason", ReasonName(generation.finish.reason())},
          {"position", generation.finish.position()},
          {"seed", generation.started.seed()},
          {"prompt_tokens", usage.prompt_tokens()},
          {"generated_tokens", usage.generated_tokens()},
          {"reused_tokens", usage.reused_tokens()},
          {"recomputed_tokens", usage.recomputed_tokens()},
          {"queue_seconds", Seconds(usage.queue_time())},
          {"prefill_seconds", Seconds(usage.prefill_time())},
          {"decode_seconds", Seconds(usage.decode_time())},
          {"time_to_first_token_seconds", Seconds(usage.time_to_first_token())},
          {"inter_token_milliseconds", InterTokenMilliseconds(usage)},
          {"bytes",
           {{"kv", usage.bytes().kv()},
            {"window", usage.bytes().window()},
            {"state", usage.bytes().state()}}}};
}

void PrintUsage(const Generation& generation) {
  const v1::TurnUsage& usage = generation.finish.usage();
  std::cerr << "[" << ReasonName(generation.finish.reason()) << ", " << usage.prompt_tokens()
            << " + " << usage.generated_tokens() << " tokens, first after "
            << static_cast<int>(1e3 * Seconds(usage.time_to_first_token())) << " ms, "
            << InterTokenMilliseconds(usage) << " ms each; holds kv "
            << HumanBytes(usage.bytes().kv()) << ", window " << HumanBytes(usage.bytes().window())
            << ", state " << HumanBytes(usage.bytes().state()) << "]\n";
}

// A bar on a terminal's standard error while a long prompt is read.
void PrintProgress(const v1::PrefillProgress& progress) {
  constexpr int kWidth = 30;
  if (isatty(STDERR_FILENO) == 0 || progress.total_tokens() < 1024) return;
  const int done = static_cast<int>(kWidth * progress.done_tokens() /
                                    std::max<uint64_t>(1, progress.total_tokens()));
  std::cerr << "\rreading [" << std::string(done, '#') << std::string(kWidth - done, ' ') << "] "
            << progress.done_tokens() << "/" << progress.total_tokens();
  if (progress.done_tokens() == progress.total_tokens()) {
    std::cerr << "\r" << std::string(kWidth + 40, ' ') << "\r";
  }
}

// Streams a turn to standard output unless `quiet`.
Generation Stream(Connection& connection, const v1::GenerateRequest& request, bool quiet) {
  return connection.Generate(request, [&](const v1::GenerateResponse& response) {
    if (!quiet && response.has_prefill()) PrintProgress(response.prefill());
    if (!quiet && response.has_delta()) std::cout << response.delta().text() << std::flush;
    return !interrupted;
  });
}

void Generate(const Global& global, const GenerateOptions& options) {
  Connection connection = Connect(global, options.model);
  const bool own_session = options.session.empty();
  const std::string session =
      own_session ? connection.Open(options.model).session_id() : options.session;
  v1::GenerateRequest request;
  request.set_session_id(session);
  request.set_parse_special(options.parse_special);
  const std::string prompt = Prompt(options);
  if (!prompt.empty()) request.mutable_input()->set_text(prompt);
  options.sampling.Fill(&request);
  const Generation generation = Stream(connection, request, global.json);
  if (global.json) {
    std::cout << ToJson(generation, session).dump(2) << "\n";
  } else {
    std::cout << "\n";
    PrintUsage(generation);
  }
  if (!own_session) return;
  if (options.keep) {
    std::cerr << "session " << session << "\n";
  } else {
    connection.Close(session);
  }
}

void Chat(const Global& global, const GenerateOptions& options) {
  Connection connection = Connect(global, options.model);
  const std::string session =
      options.session.empty() ? connection.Open(options.model).session_id() : options.session;
  std::cerr << "session " << session << "; an empty line or Ctrl-D ends, Ctrl-C stops an answer\n";
  std::string line;
  while (std::cerr << "> " && std::getline(std::cin, line) && !line.empty()) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.set_on_abort(v1::ON_ABORT_KEEP);
    request.mutable_input()->set_text(line + "\n");
    options.sampling.Fill(&request);
    interrupted = false;
    try {
      const Generation generation = Stream(connection, request, /*quiet=*/false);
      std::cout << "\n";
      PrintUsage(generation);
    } catch (const CallError& error) {
      std::cerr << "\n" << error.what() << "\n";
    }
  }
  if (!options.keep) connection.Close(session);
}

CLI::App* AddCommon(CLI::App* app, GenerateOptions* options) {
  app->add_option("-m,--model", options->model, "model; empty: the only one");
  app->add_option("-s,--session", options->session, "session to continue; default: a new one");
  app->add_flag("--keep", options->keep, "leave the session open and print its id");
  options->sampling.AddTo(app);
  return app;
}

}  // namespace

void AddGenerate(CLI::App* app, const Global* global) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command =
      AddCommon(app->add_subcommand("generate", "Generate text from a prompt"), options.get());
  command->add_option("prompt", options->prompt, "the prompt");
  command->add_option("-f,--file", options->file, "read the prompt from a file; -: standard input")
      ->excludes("prompt");
  command->add_flag("--parse-special", options->parse_special,
                    "special tokens spelled in the prompt become their ids");
  command->footer(
      "Examples:\n"
      "  longstream generate -m hypenet -n 100 -t 0.8 'def main():'\n"
      "  longstream generate --json -f prompt.txt | jq .text");
  command->callback([=] { Generate(*global, *options); });
}

void AddChat(CLI::App* app, const Global* global) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command =
      AddCommon(app->add_subcommand("chat", "Talk to a model, a line at a time"), options.get());
  command->footer("Example:\n  longstream chat -m hypenet -t 0.7 -n 200");
  command->callback([=] { Chat(*global, *options); });
}

}  // namespace longstream::client
