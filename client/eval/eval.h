// What the evaluations share. Each measures models through the service, on texts and questions that
// are the same for models of one tokenizer.
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

// Of the text by which the length of a model's tokens is measured.
inline constexpr size_t kCalibrationBytes = 4096;

struct EvalOptions {
  std::vector<std::string> models;
  std::vector<uint64_t> lengths;  // in tokens
  int streams = 4;
  uint64_t mark = 0;
  std::string svg;
};

// Adds a subcommand of `eval`; what `options` holds is the default.
CLI::App* AddEvaluation(CLI::App* eval, const std::string& name, const std::string& description,
                        EvalOptions* options);

// The evaluations: `longstream eval text` and so on.
void AddEvalText(CLI::App* eval, const Global* global);
void AddEvalTasks(CLI::App* eval, const Global* global);

// Measures each of options->models, the only one where there are none, and leaves their names
// there. bytes_per_token is the mean over `text`, which is scored for it. Throws
// CLI::ValidationError where a model is named twice.
using MeasureModel =
    std::function<void(Connection& connection, const std::string& model, double bytes_per_token)>;
void ForEachModel(const Global& global, EvalOptions* options, const std::string& text,
                  const MeasureModel& measure);

// Writes the plot where --svg asks for it, and prints the table or `json`. Throws Interruption
// where an interrupt left something out.
void Publish(const Global& global, const EvalOptions& options, const Report& report,
             const nlohmann::ordered_json& json);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_EVAL_H_
