// The result of an evaluation, and its three output forms: a table, JSON and a plot.
#ifndef LONGSTREAM_CLIENT_EVAL_REPORT_H_
#define LONGSTREAM_CLIENT_EVAL_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace longstream::client {

// The counts of one model over a group of predictions.
struct Figures {
  uint64_t count = 0;
  uint64_t correct = 0;
  double sum_log_prob = 0;  // natural logarithm; only for texts

  void Add(const Figures& other);
  // NaN if `count` is 0.
  double accuracy() const;
  // The standard error of the accuracy, if the predictions are independent.
  double standard_error() const;
  double perplexity() const;
};

// The figures for one range of positions, or for one length.
struct Row {
  std::string label;
  double x = 0;                 // the x coordinate in a plot
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
  bool likelihood = false;  // true: the figures have a perplexity
  std::vector<Grid> grids;  // the plot shows the first grid
  double mark = 0;          // a position that the plot marks, such as the training length; 0: none
};

// Returns a table for people: accuracy in percent, and perplexity if report.likelihood is set.
std::string Table(const Report& report);

// Returns {"task", "models", "by_position": [{"position", "models": {NAME: {"count", "accuracy",
// ...}}}]}.
nlohmann::ordered_json JsonOf(const Report& report);

// Returns a complete SVG file: the accuracy over the rows of the first grid, with one line per
// model.
std::string Plot(const Report& report);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_REPORT_H_
