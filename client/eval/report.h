// The result of an evaluation, and its three forms: a table, JSON and a plot.
#ifndef LONGSTREAM_CLIENT_EVAL_REPORT_H_
#define LONGSTREAM_CLIENT_EVAL_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace longstream::client {

// Predictions of one model that are counted together.
struct Figures {
  uint64_t count = 0;
  uint64_t correct = 0;
  double sum_log_prob = 0;  // in nats; only for texts

  void Add(const Figures& other);
  // NaN if nothing was counted.
  double accuracy() const;
  double standard_error() const;  // of the accuracy, for independent predictions
  double perplexity() const;
};

// Predictions from one range of positions, or at one length.
struct Row {
  std::string label;
  double x = 0;                 // where a plot draws it
  std::vector<Figures> models;  // in the order of Report::models
};

struct Grid {
  std::string by;  // "position", "length"
  std::vector<Row> rows;
};

struct Report {
  std::string task;
  std::string title;
  std::vector<std::string> models;
  bool likelihood = false;  // the figures have a perplexity
  std::vector<Grid> grids;  // the first is drawn
  double mark = 0;          // a position that the plot marks, such as the training length; 0: none
};

// For people: accuracy in percent, and perplexity if report.likelihood.
std::string Table(const Report& report);

// {"task", "models", "by_position": [{"position", "models": {NAME: {"count", "accuracy", ...}}}]}
nlohmann::ordered_json Json(const Report& report);

// A complete SVG file: accuracy over the rows of the first grid, one line per model.
std::string Plot(const Report& report);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_REPORT_H_
