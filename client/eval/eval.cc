// `longstream eval`: adds the subcommands, and implements the parts that they share.
#include "client/eval/eval.h"

#include <fstream>
#include <set>

#include "client/interrupt.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

double BytesPerToken(Connection& connection, const std::string& model, const std::string& text) {
  v1::ScoreRequest request;
  request.set_model(model);
  request.mutable_input()->set_text(text);
  // Add one for the first token, which is not scored.
  const uint64_t tokens = connection.Score(request).tokens() + 1;
  return static_cast<double>(text.size()) / static_cast<double>(tokens);
}

}  // namespace

CLI::App* AddEvaluation(CLI::App* eval, const std::string& name, const std::string& description,
                        EvalOptions* options) {
  CLI::App* command = eval->add_subcommand(name, description);
  command
      ->add_option(
          "-m,--model", options->models,
          "model name; repeat the option to compare models; default: the server's only model")
      ->allow_extra_args(false);
  command
      ->add_option("--lengths", options->lengths,
                   "lengths of contexts in tokens, separated by commas")
      ->delimiter(',')
      ->check(WholeNumber(2, 1 << 24))
      ->capture_default_str();
  command->add_option("--streams", options->streams, "number of calls at the same time")
      ->check(WholeNumber(1, 4096))
      ->capture_default_str();
  command->add_option("--svg", options->svg, "write a plot to this file");
  command
      ->add_option("--mark", options->mark,
                   "mark this length in the plot, such as the training length")
      ->check(WholeNumber(1, 1 << 24));
  return command;
}

void ForEachModel(const Global& global, EvalOptions* options, const std::string& text,
                  const MeasureModel& measure) {
  std::set<std::string> seen;
  for (const std::string& model : options->models) {
    if (!seen.insert(model).second) {
      throw CLI::ValidationError("--model", model + " is named twice");
    }
  }
  if (options->models.empty()) options->models = {""};
  for (std::string& model : options->models) {
    Connection connection = Connect(global, model);
    model = connection.Model(model).name();
    measure(connection, model, BytesPerToken(connection, model, text));
  }
}

void Publish(const Global& global, const EvalOptions& options, const Report& report,
             const nlohmann::ordered_json& json) {
  if (Interrupted()) throw Interruption();
  if (!options.svg.empty()) {
    std::ofstream file(options.svg, std::ios::binary);
    if (!(file << Plot(report)).flush()) {
      throw CLI::ValidationError("--svg", options.svg + " cannot be written");
    }
  }
  // The text of a model may end in the middle of a character.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  Print(global.json ? json.dump(2, ' ', false, kReplace) + "\n" : Table(report));
}

void AddEval(CLI::App* app, const Global* global) {
  CLI::App* eval = app->add_subcommand(
      "eval", "Measure models side by side: accuracy by position, retrieval, recall");
  eval->require_subcommand(1);
  eval->fallthrough();
  AddEvalText(eval, global);
  AddEvalTasks(eval, global);
  eval->footer(
      "Example:\n"
      "  longstream eval text -m dense -m hwfa2 --svg accuracy.svg models/demo/heldout.txt");
}

}  // namespace longstream::client
