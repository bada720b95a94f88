// Writes a Report as tables and as JSON.
#include "client/eval/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "client/eval/svg_plot.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

// Formats lines as columns. Aligns the first column to the left and the others to the right.
std::string Aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - line[i].size(), ' ');
      text += i == 0 ? line[i] + blanks : "  " + blanks + line[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

// Returns a table of one figure: a line for each row, a column for each model, and a column with
// the largest count.
std::string TableOf(const Grid& grid, const std::vector<std::string>& models,
                    const std::string& title, const char* format,
                    const std::function<double(const Figures&)>& figure) {
  std::vector<std::vector<std::string>> lines = {{grid.by}};
  lines[0].insert(lines[0].end(), models.begin(), models.end());
  lines[0].emplace_back("n");
  for (const Row& row : grid.rows) {
    std::vector<std::string>& line = lines.emplace_back(1, row.label);
    uint64_t most = 0;
    for (const Figures& figures : row.models) {
      line.push_back(Number(figure(figures), format));
      most = std::max(most, figures.count);
    }
    line.push_back(std::to_string(most));
  }
  return title + "\n\n" + Aligned(lines);
}

nlohmann::ordered_json JsonOf(const Figures& figures, bool likelihood) {
  nlohmann::ordered_json json = {{"count", figures.count},
                                 {"correct", figures.correct},
                                 {"accuracy", figures.accuracy()},
                                 {"standard_error", figures.standard_error()}};
  if (likelihood) {
    json["perplexity"] = figures.perplexity();
    json["sum_log_prob"] = figures.sum_log_prob;
  }
  return json;
}

}  // namespace

void Figures::Add(const Figures& other) {
  count += other.count;
  correct += other.correct;
  sum_log_prob += other.sum_log_prob;
}

double Figures::accuracy() const {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(correct) / static_cast<double>(count);
}

double Figures::standard_error() const {
  return std::sqrt(accuracy() * (1 - accuracy()) / static_cast<double>(count));
}

double Figures::perplexity() const {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::exp(-sum_log_prob / static_cast<double>(count));
}

std::string Table(const Report& report) {
  std::string text;
  for (const Grid& grid : report.grids) {
    if (!text.empty()) text += '\n';
    text += TableOf(grid, report.models, report.title + " by " + grid.by + ": accuracy, %", "%.2f",
                    [](const Figures& figures) { return 100 * figures.accuracy(); });
    if (!report.likelihood) continue;
    text += "\n" + TableOf(grid, report.models, "perplexity by " + grid.by, "%.3f",
                           [](const Figures& figures) { return figures.perplexity(); });
  }
  return text;
}

nlohmann::ordered_json JsonOf(const Report& report) {
  nlohmann::ordered_json json = {{"task", report.task}, {"models", report.models}};
  for (const Grid& grid : report.grids) {
    nlohmann::ordered_json& rows = json["by_" + grid.by] = nlohmann::ordered_json::array();
    for (const Row& row : grid.rows) {
      nlohmann::ordered_json models;
      for (size_t i = 0; i < report.models.size(); ++i) {
        models[report.models[i]] = JsonOf(row.models[i], report.likelihood);
      }
      rows.push_back({{grid.by, row.label}, {"models", models}});
    }
  }
  return json;
}

std::string Plot(const Report& report) {
  SvgPlot plot;
  plot.title = report.title;
  plot.x_label = report.grids[0].by + ", tokens";
  plot.y_label = "accuracy, %";
  plot.mark = report.mark;
  for (size_t i = 0; i < report.models.size(); ++i) {
    SvgPlot::Line& line = plot.lines.emplace_back();
    line.name = report.models[i];
    for (const Row& row : report.grids[0].rows) {
      if (row.models[i].count == 0) continue;
      line.points.push_back({row.x, 100 * row.models[i].accuracy()});
    }
  }
  return Svg(plot);
}

}  // namespace longstream::client
