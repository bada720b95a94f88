// What the evaluations share. Each measures models through the service, on texts and questions that
// are the same for models of one tokenizer.
#ifndef LONGSTREAM_CLIENT_EVAL_EVAL_H_
#define LONGSTREAM_CLIENT_EVAL_EVAL_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/commands.h"
#include "client/connection.h"
#include "client/eval/report.h"

namespace longstream::client {

// What BytesPerToken is asked about.
inline constexpr size_t kCalibrationBytes = 4096;

struct EvalOptions {
  std::vector<std::string> models;
  std::vector<uint64_t> lengths;  // in tokens
  int streams = 4;
  uint64_t seed = 1;
  uint64_t mark = 0;
  std::string svg;
};

// Adds a subcommand of `eval`; what `options` holds is the default.
CLI::App* AddEvaluation(CLI::App* eval, const std::string& name, const std::string& description,
                        EvalOptions* options);

// The evaluations: `longstream eval text` and so on.
void AddEvalText(CLI::App* eval, const Global* global);
void AddEvalTasks(CLI::App* eval, const Global* global);

// Throws CLI::ValidationError where a model is named twice.
void RequireDistinct(const std::vector<std::string>& models);

// Bytes of `text` that a token of `model` has on average. `text` is scored for it.
double BytesPerToken(Connection& connection, const std::string& model, const std::string& text);

// Writes the plot where --svg asks for it, and prints the table or `json`. Throws Interruption
// where an interrupt left something out.
void Publish(const Global& global, const EvalOptions& options, const Report& report,
             const nlohmann::ordered_json& json);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_EVAL_H_
