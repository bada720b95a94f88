// Prints the figures as a table and writes them as JSON.
#include "tests/bench/gpu/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/errors/error.h"

namespace longstream {
namespace {

void Print(const Figure& figure) {
  if (!figure.missing.empty()) {
    std::printf("%-44s  not measured: %s\n", figure.name.c_str(), figure.missing.c_str());
    return;
  }
  std::printf("%-44s %10.2f %-8s", figure.name.c_str(), figure.value, figure.unit.c_str());
  if (figure.fraction.has_value()) {
    std::printf(" %6.1f %% of %-8s", 100 * *figure.fraction, figure.against.c_str());
  } else {
    std::printf(" %20s", "");
  }
  if (figure.passes().has_value()) {
    std::printf(" least %.2f  %s", *figure.least, *figure.passes() ? "pass" : "FAIL");
  }
  std::printf("\n");
}

}  // namespace

std::optional<bool> Figure::passes() const {
  if (!least.has_value() || !missing.empty()) return std::nullopt;
  return fraction.value_or(value) >= *least;
}

void BenchReport::Add(Figure figure) {
  if (!IsWanted(figure)) return;
  Print(figure);
  std::fflush(stdout);
  figures_.push_back(std::move(figure));
}

void BenchReport::Measure(const std::vector<Figure>& figures,
                          const std::function<void()>& measure) {
  if (std::none_of(figures.begin(), figures.end(),
                   [this](const Figure& figure) { return IsWanted(figure); })) {
    return;
  }
  try {
    measure();
  } catch (const BackendError& error) {
    for (Figure figure : figures) {
      const bool is_added = std::any_of(figures_.begin(), figures_.end(), [&](const Figure& added) {
        return added.name == figure.name;
      });
      if (is_added) continue;
      figure.missing = error.what();
      Add(std::move(figure));
    }
  }
}

std::optional<double> BenchReport::Find(const std::string& name) const {
  for (const Figure& figure : figures_) {
    if (figure.name == name && figure.missing.empty()) return figure.value;
  }
  return std::nullopt;
}

std::string BenchReport::Json(const std::string& device) const {
  nlohmann::ordered_json json;
  json["device"] = device;
  json["figures"] = nlohmann::ordered_json::array();
  for (const Figure& figure : figures_) {
    nlohmann::ordered_json row;
    row["name"] = figure.name;
    row["unit"] = figure.unit;
    if (figure.missing.empty()) {
      row["value"] = figure.value;
    } else {
      row["missing"] = figure.missing;
    }
    if (figure.fraction.has_value()) {
      row["against"] = figure.against;
      row["fraction"] = *figure.fraction;
    }
    if (figure.least.has_value()) row["least"] = *figure.least;
    if (figure.passes().has_value()) row["pass"] = *figure.passes();
    json["figures"].push_back(std::move(row));
  }
  return json.dump(1);
}

int BenchReport::num_failed() const {
  return static_cast<int>(std::count_if(figures_.begin(), figures_.end(), [](const Figure& figure) {
    return figure.least.has_value() && !figure.passes().value_or(false);
  }));
}

}  // namespace longstream
