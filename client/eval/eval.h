// The parts that all evaluations share. An evaluation measures models by calls to the service.
// Models with the same tokenizer get the same texts and questions.
#ifndef LONGSTREAM_CLIENT_EVAL_EVAL_H_
#define LONGSTREAM_CLIENT_EVAL_EVAL_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/eval/report.h"

namespace longstream::client {

// This much text is scored to measure the mean length of a model's tokens.
inline constexpr size_t kCalibrationBytes = 4096;

struct EvalOptions {
  std::vector<std::string> models;
  std::vector<uint64_t> lengths;  // lengths of contexts or windows, in tokens
  int streams = 4;
  uint64_t mark = 0;
  std::string svg;
};

// Adds a subcommand of `eval` with the options that all evaluations have. The values in `options`
// are the defaults.
CLI::App* AddEvaluation(CLI::App* eval, const std::string& name, const std::string& description,
                        EvalOptions* options);

// Add the evaluations: `longstream eval text`, and the tasks (passkey, listops, recall).
void AddEvalText(CLI::App* eval, const Global* global);
void AddEvalTasks(CLI::App* eval, const Global* global);

// Calls `measure` for each of options->models. If the list is empty, adds the server's only model
// to it first. Scores `text` to measure `bytes_per_token`, the mean length of the tokens of that
// text. Throws CLI::ValidationError if a model is named twice.
using MeasureModel =
    std::function<void(Connection& connection, const std::string& model, double bytes_per_token)>;
void ForEachModel(const Global& global, EvalOptions* options, const std::string& text,
                  const MeasureModel& measure);

// Writes the plot to the file of --svg, if given, and prints the table or `json`. After an
// interrupt, figures are missing, so Publish throws Interruption instead.
void Publish(const Global& global, const EvalOptions& options, const Report& report,
             const nlohmann::ordered_json& json);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_EVAL_H_
