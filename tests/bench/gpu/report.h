// The figures of a benchmark as a table and as JSON. Each is compared to its target.
#ifndef LONGSTREAM_TESTS_BENCH_GPU_REPORT_H_
#define LONGSTREAM_TESTS_BENCH_GPU_REPORT_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longstream {

struct Figure {
  std::string name{};       // unique; the comparison with other programs looks it up
  double value = 0;         // in `unit`
  std::string unit = "us";  // "us", "GB/s", "TFLOP/s", "tokens/s", "ratio"
  std::string against{};    // `fraction` is value / this; "": none
  std::optional<double> fraction{};
  std::optional<double> least{};  // target of `fraction`, or of `value` for a ratio
  std::string missing{};          // why there is no value; "": there is one

  // Whether the figure reaches its target. nullopt: the figure has no target or no value.
  std::optional<bool> passes() const;
};

class BenchReport {
 public:
  // From now on, Measure measures only figures whose names contain `text`, and Add ignores others.
  void Match(std::string text) { match_ = std::move(text); }
  // Adds a figure and prints its line.
  void Add(Figure figure);
  // Runs `measure`, which adds the figures with these names. If it throws BackendError (as when
  // memory is short), the figures that it has not added are added as missing, with their targets.
  void Measure(const std::vector<Figure>& figures, const std::function<void()>& measure);
  // The value of a figure; nullopt: there is no such figure, or it is missing.
  std::optional<double> Find(const std::string& name) const;

  const std::vector<Figure>& figures() const { return figures_; }
  // {"device": ..., "figures": [{name, value, unit, against, fraction, least, pass | missing}]}
  std::string Json(const std::string& device) const;
  // Number of figures that miss their target, or have a target but no value.
  int num_failed() const;

 private:
  bool IsWanted(const Figure& figure) const {
    return figure.name.find(match_) != std::string::npos;
  }

  std::vector<Figure> figures_;
  std::string match_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_GPU_REPORT_H_
