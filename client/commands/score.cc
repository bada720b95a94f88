// `longstream score`: measures how well a model predicts a text.
#include <cmath>
#include <cstdio>
#include <memory>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/commands/turn_output.h"
#include "client/output.h"
#include "client/text_windows.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

struct ScoreOptions {
  std::string model;
  std::string file;
  size_t window_bytes = 0;
  size_t max_windows = 0;
};

void Score(const Global& global, const ScoreOptions& options) {
  const std::string text = ReadFile(options.file, "file");
  const std::vector<std::string> windows = Windows(text, options.window_bytes, options.max_windows);
  if (windows.empty()) {
    throw CLI::ValidationError("--window-bytes", "the text is shorter than one window");
  }
  Connection connection = Connect(global, options.model);
  uint64_t tokens = 0;
  uint64_t top1 = 0;
  double sum = 0;
  v1::SessionBytes bytes;
  for (const std::string& window : windows) {
    v1::ScoreRequest request;
    request.set_model(options.model);
    request.mutable_input()->set_text(window);
    const v1::ScoreSummary summary = connection.Score(request);
    tokens += summary.tokens();
    top1 += summary.top1_tokens();
    sum += summary.sum_log_prob();
    bytes = summary.bytes();
  }
  // If no token was scored, these values are NaN. The JSON library writes NaN as null.
  const double count = static_cast<double>(tokens);
  const double accuracy = static_cast<double>(top1) / count;
  const double perplexity = std::exp(-sum / count);
  if (global.json) {
    const nlohmann::ordered_json json = {
        {"model", options.model},    {"windows", windows.size()}, {"tokens", tokens},
        {"top1_accuracy", accuracy}, {"perplexity", perplexity},  {"nats_per_token", -sum / count},
        {"bytes", BytesJson(bytes)}};
    return Print(json.dump(2) + "\n");
  }
  if (tokens == 0) {
    std::printf(
        "%zu windows, 0 tokens: nothing to score, because the first token has no probability\n",
        windows.size());
    return;
  }
  std::printf("%zu windows, %llu tokens: next-token accuracy %.2f %%, perplexity %.3f\n",
              windows.size(), static_cast<unsigned long long>(tokens), 100 * accuracy, perplexity);
}

}  // namespace

void AddScore(CLI::App* app, const Global* global) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = app->add_subcommand(
      "score", "Measure how well a model predicts a text: accuracy and perplexity");
  command->add_option("-m,--model", options->model, "model; empty: the only one");
  command->add_option("file", options->file, "file with the text; -: standard input")->required();
  command
      ->add_option("-w,--window-bytes", options->window_bytes,
                   "score pieces of this many bytes, each from an empty history; 0: one piece")
      ->check(WholeNumber());
  command
      ->add_option("--max-windows", options->max_windows, "score at most this many pieces; 0: all")
      ->check(WholeNumber());
  command->footer("Example:\n  longstream score -m dense -w 4096 models/demo/heldout.txt");
  command->callback([=] { Score(*global, *options); });
}

}  // namespace longstream::client
