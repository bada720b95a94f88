// The figures of a benchmark as a table and as JSON, each held against what it must reach.
#ifndef LONGSTREAM_TESTS_BENCH_GPU_REPORT_H_
#define LONGSTREAM_TESTS_BENCH_GPU_REPORT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longstream {

struct Figure {
  std::string name{};       // unique; what the comparison with other programs looks up
  double value = 0;         // in `unit`
  std::string unit = "us";  // "us", "GB/s", "TFLOP/s", "ratio"
  std::string against{};    // what `fraction` is a fraction of, "" for none
  std::optional<double> fraction{};
  std::optional<double> least{};  // what `fraction` must reach, or else `value` of a ratio
  std::string missing{};          // why there is no value; "" where there is one

  // nullopt: nothing is asked of it, or there is no value.
  std::optional<bool> passes() const;
};

class BenchReport {
 public:
  // Adds a figure and prints its line.
  void Add(Figure figure);
  // Runs `measure`, which adds the figures of these names. Those that it has not added when it
  // throws BackendError, as where memory is short, are added as missing, with what is asked of
  // them.
  void Measure(const std::vector<Figure>& figures, const std::function<void()>& measure);
  // The value of a figure that is there and not missing.
  std::optional<double> Find(const std::string& name) const;

  const std::vector<Figure>& figures() const { return figures_; }
  // {"device": ..., "figures": [{name, value, unit, against, fraction, least, pass | missing}]}
  std::string Json(const std::string& device) const;
  // How many miss what they must reach, or have no value though something is asked of them.
  int num_failed() const;

 private:
  std::vector<Figure> figures_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_GPU_REPORT_H_
