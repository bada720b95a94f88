// Compares projections of one token to a copy of the weight's bytes, and projections of a piece of
// a prompt to a large product. The matrices are those of the 14B shape (bench_plans.h).
#include <optional>
#include <string>
#include <string_view>

#include "kernels/ops/op_table.h"
#include "tests/bench/gpu/gpu_bench.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

constexpr int kRepetitions = 40;
constexpr int kProductsOfGraph = 16;
constexpr int64_t kManyRows[] = {16, 64, 256};  // decode rows of steps of many sequences
constexpr int kGraphs = 10;
constexpr double kLeastOfCopy = 0.90;
constexpr int64_t kPrefillRows = 512;
// Weights that are smaller than this have no target, because reading them takes less time than
// starting a kernel.
constexpr size_t kLargeBytes = size_t{32} << 20;

// The work of a step before and after the product.
enum class Role {
  kProject,  // norms its input
  kGate,     // norms its input; has a pair of weights, and gates one product by the other
  kAdd,      // adds to the residual stream
};

struct Projection {
  const char* name;
  int64_t n;
  int64_t k;
  Role role;
};

constexpr Projection kProjections[] = {{"qkv", 7168, 5120, Role::kProject},
                                       {"o", 5120, 5120, Role::kAdd},
                                       {"gate, up", 17408, 5120, Role::kGate},
                                       {"down", 5120, 17408, Role::kAdd},
                                       {"head", 151936, 5120, Role::kProject}};
constexpr std::string_view kPrefillProjection = "down";
constexpr DType kTypes[] = {DType::kBF16, DType::kI8, DType::kI4};

// Enough copies of a weight that none is in a cache when it is used again.
class Weights {
 public:
  Weights(GpuBench& bench, const Projection& projection, DType type)
      : projection_(projection),
        type_(type),
        bytes_(DeviceOps().packed_bytes(type, projection.n, projection.k)),
        num_copies_(static_cast<size_t>(bench.ColdCopies(bytes_))),
        memory_(bench.Memory(num_copies_ * bytes_)) {
    // Fill the weights with random bf16 numbers. Read as packed integers and f16 scales, the same
    // bits are random integers and scales of about 1.
    bench.FillRandom(DType::kBF16, memory_.data(),
                     static_cast<int64_t>(num_copies_ * bytes_ / sizeof(BF16)), 0.014f);
  }

  size_t bytes() const { return bytes_; }
  PackedWeight at(int i) const {
    return {memory_.data() + static_cast<size_t>(i) % num_copies_ * bytes_, type_, projection_.n,
            projection_.k};
  }

 private:
  const Projection projection_;
  const DType type_;
  const size_t bytes_;
  const size_t num_copies_;
  const DeviceMemory memory_;
};

// The product of some decode rows with a projection's weights.
class Gemv {
 public:
  Gemv(GpuBench& bench, const Projection& projection, DType type, int64_t rows = 1)
      : weights_(bench, projection, type),
        gates_(projection.role == Role::kGate),
        x_(bench.Random(DType::kF32, rows * projection.k)),
        norm_(bench.Random(DType::kF32, projection.k)),
        out_(bench.Random(DType::kF32, rows * projection.n)),
        workspace_(LinearWorkspace(rows, projection.k, projection.n)) {
    in_.x = Rows(x_, DType::kF32, rows, projection.k);
    if (projection.role != Role::kAdd) {
      in_.norm = {reinterpret_cast<const float*>(norm_.data()), projection.k, 1e-6f};
    }
    args_.activation = gates_ ? Activation::kSilu : Activation::kNone;
    args_.accumulate = projection.role == Role::kAdd;
    args_.num_decode_rows = rows;
    args_.out = Rows(out_, DType::kF32, rows, projection.n);
  }

  // The i-th product, with a copy of the weights that is in no cache.
  void Run(Stream& on, int i) {
    args_.in = {in_, weights_.at(gates_ ? 2 * i : i)};
    if (gates_) args_.up = weights_.at(2 * i + 1);
    DeviceOps().linear(on, args_);
  }

  size_t bytes() const { return weights_.bytes() * (gates_ ? 2 : 1); }
  size_t workspace() const { return workspace_; }

 private:
  const Weights weights_;
  const bool gates_;
  const DeviceMemory x_;
  const DeviceMemory norm_;
  const DeviceMemory out_;
  const size_t workspace_;
  LinearRows in_;
  LinearArgs args_;
};

void BenchGemv(GpuBench& bench, const Projection& projection, DType type, const std::string& name) {
  Gemv gemv(bench, projection, type);
  const double seconds = bench.MedianSeconds(gemv.workspace(), kRepetitions,
                                             [&](Stream& on, int i) { gemv.Run(on, i); });
  std::optional<double> least;
  if (gemv.bytes() >= kLargeBytes) least = kLeastOfCopy;
  bench.Add(name, {.seconds = seconds, .bytes = static_cast<double>(gemv.bytes())}, least);
}

// Measures products that follow each other in a graph, as the products of a step do.
Timed BenchGemvInGraph(GpuBench& bench, const Projection& projection, DType type,
                       int64_t rows = 1) {
  Gemv gemv(bench, projection, type, rows);
  Device& device = bench.device();
  const DeviceMemory workspace = bench.Memory(gemv.workspace());
  const auto products = [&] {
    Stream stream = device.MakeStream(bench.executor(), workspace.data(), workspace.size());
    for (int i = 0; i < kProductsOfGraph; ++i) gemv.Run(stream, i);
    return stream.status;
  };
  device.ForgetWork();  // the recordings of other products
  const auto once = [&] {
    if (device.Repeat(0, products) != OpStatus::kOk) FailBenchmark("a product failed");
  };
  for (int i = 0; i < 3; ++i) once();  // the second run records the graph
  device.Synchronize();
  const double seconds = SecondsOf([&] {
    for (int i = 0; i < kGraphs; ++i) once();
    if (device.Synchronize() != OpStatus::kOk) FailBenchmark("a product failed");
  });
  device.ForgetWork();
  return {.seconds = seconds / (kGraphs * kProductsOfGraph),
          .bytes = static_cast<double>(gemv.bytes())};
}

Timed BenchPrefillRows(GpuBench& bench, const Projection& projection, DType type) {
  const int64_t rows = bench.Scaled(kPrefillRows);
  const int64_t k = projection.k;
  const int64_t n = projection.n;
  const Weights weights(bench, projection, type);
  const DeviceMemory x = bench.Random(DType::kF32, rows * k);
  const DeviceMemory out = bench.Memory(static_cast<size_t>(rows * n) * sizeof(float));
  const double seconds =
      bench.MedianSeconds(LinearWorkspace(rows, k), kRepetitions, [&](Stream& on, int i) {
        const LinearRows in = {.x = Rows(x, DType::kF32, rows, k)};
        DeviceOps().linear(on, {.in = {in, weights.at(i)}, .out = Rows(out, DType::kF32, rows, n)});
      });
  return {.seconds = seconds,
          .operations = 2.0 * static_cast<double>(rows * n) * static_cast<double>(k)};
}

}  // namespace

void BenchProjections(GpuBench& bench) {
  for (const DType type : kTypes) {
    for (const Projection& whole : kProjections) {
      Projection projection = whole;
      projection.n = bench.Scaled(whole.n);
      projection.k = bench.Scaled(whole.k);
      const std::string name = std::string("GEMV ") + NameOf(type) + " " + whole.name;
      bench.report().Measure({{.name = name, .least = kLeastOfCopy}},
                             [&] { BenchGemv(bench, projection, type, name); });
      if (type == DType::kBF16) {
        bench.Measure(name + ", in a graph", {},
                      [&] { return BenchGemvInGraph(bench, projection, type); });
        for (const int64_t rows : kManyRows) {
          bench.Measure(name + ", " + std::to_string(rows) + " rows", {},
                        [&] { return BenchGemvInGraph(bench, projection, type, rows); });
        }
      }
      if (whole.name != kPrefillProjection) continue;
      bench.Measure(
          "prefill " + std::to_string(kPrefillRows) + " rows " + NameOf(type) + " " + whole.name,
          {}, [&] { return BenchPrefillRows(bench, projection, type); });
    }
  }
}

}  // namespace longstream
