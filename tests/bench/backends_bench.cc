// How time per token grows with the context: prefill and decode at 1K and 16K tokens, for models
// with one kind of layer. In window-only and RNN-only models the time per token should not grow;
// full attention is there for comparison. The weights are random, in the shape of a mid-size model.
// Exits with 1 if the time per token grows in a window-only or RNN-only model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/core/thread_pool.h"
#include "kernels/ops/op_table.h"
#include "tests/backends/model/random_model.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

constexpr uint32_t kPiece = 512;   // tokens of a prefill step
constexpr int kDecodeTokens = 64;  // the steps from one grid line to the next
constexpr int64_t kShort = 1024;
constexpr int64_t kLong = 16384;

struct Row {
  const char* name;
  std::string plan;
  bool bounded;  // decode and prefill at kLong must be nearly as fast as at kShort
};

// 26M parameters in 8 layers, 4 MB of embeddings: a step reads 55 MB of weights.
RandomShape Shape() {
  RandomShape shape;
  shape.vocabulary = 4096;
  shape.width = 512;
  shape.mlp_width = 1408;
  shape.num_heads = 8;
  shape.num_kv_heads = 8;
  shape.head_dim = 64;
  shape.window = 512;
  shape.context_limit = kLong + kDecodeTokens;
  return shape;
}

std::string Repeat(const std::string& layer, int count) {
  std::string plan = layer;
  for (int i = 1; i < count; ++i) plan += "+" + layer;
  return plan;
}

double Step(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens, bool is_decode) {
  ls_batch_entry entry{};
  entry.sequence = &sequence;
  entry.tokens = tokens.data();
  entry.num_tokens = static_cast<uint32_t>(tokens.size());
  entry.is_decode = is_decode ? 1 : 0;
  // LS_ROWS_LAST makes the step run the head.
  entry.log_prob_rows = is_decode ? LS_ROWS_LAST : LS_ROWS_NONE;
  const ls_batch batch = {sizeof(ls_batch), &entry, 1};
  ls_results results{};
  const double seconds = SecondsOf([&] { results = model.Wait(model.Submit(batch)); });
  if (results.results[0].code != LS_OK) {
    std::fprintf(stderr, "a step failed: %s\n", results.results[0].message);
    std::exit(1);
  }
  return seconds;
}

// Seconds of each step, the least of several rounds, because other programs disturb the machine.
struct Times {
  std::vector<double> prefill;
  std::vector<double> decode;

  void Keep(const Times& other) {
    const auto keep = [](std::vector<double>& least, const std::vector<double>& times) {
      for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], times[i]);
    };
    keep(prefill, other.prefill);
    keep(decode, other.decode);
  }

  // Prefill time in microseconds per token.
  double PrefillPerToken() const { return 1e6 * Mean(prefill) / kPiece; }
  double DecodePerToken() const { return 1e6 * Mean(decode); }

 private:
  static double Mean(const std::vector<double>& times) {
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }
};

Times Measure(Model& model, int64_t context) {
  const std::vector<int32_t> piece(kPiece, 7);
  const auto sequence = model.Create();
  model.Reserve(*sequence, static_cast<uint64_t>(context + kDecodeTokens));
  Times times;
  for (int64_t position = 0; position < context; position += kPiece) {
    times.prefill.push_back(Step(model, *sequence, piece, false));
  }
  for (int i = 0; i < kDecodeTokens; ++i) {
    times.decode.push_back(Step(model, *sequence, std::span(piece).first(1), true));
  }
  return times;
}

constexpr double kPrefillLimit = 1.2;
constexpr double kDecodeLimit = 1.1;

// Prints the row. Returns whether it is within its limits.
bool Print(const Row& row, const Times& at_1k, const Times& at_16k) {
  const double prefill = at_16k.PrefillPerToken() / at_1k.PrefillPerToken();
  const double decode = at_16k.DecodePerToken() / at_1k.DecodePerToken();
  const auto verdict = [&](double ratio, double limit) {
    return !row.bounded ? "" : ratio <= limit ? "ok" : "OVER";
  };
  std::printf("%-10s  %8.1f %8.1f  %5.2f %-4s  %8.1f %8.1f  %5.2f %-4s\n", row.name,
              at_1k.PrefillPerToken(), at_16k.PrefillPerToken(), prefill,
              verdict(prefill, kPrefillLimit), at_1k.DecodePerToken(), at_16k.DecodePerToken(),
              decode, verdict(decode, kDecodeLimit));
  std::fflush(stdout);
  return !row.bounded || (prefill <= kPrefillLimit && decode <= kDecodeLimit);
}

bool Run(const Row& row, int rounds, const Executor& executor, nlohmann::ordered_json* rows) {
  ModelSpec spec = RandomSpec(row.plan, Shape());
  ModelWeights weights = RandomWeights(spec, DType::kBF16, DeviceOps(), executor);
  Model model(std::move(spec), std::move(weights), DType::kBF16, DeviceOps(), executor,
              {0, kPiece, 1});
  Measure(model, kShort);  // this run touches all memory
  Times at_1k = Measure(model, kShort);
  Times at_16k = Measure(model, kLong);
  for (int round = 1; round < (row.bounded ? rounds : std::min(rounds, 2)); ++round) {
    at_1k.Keep(Measure(model, kShort));
    at_16k.Keep(Measure(model, kLong));
  }
  const auto microseconds = [](const Times& times) -> nlohmann::ordered_json {
    return {{"prefill", times.PrefillPerToken()}, {"decode", times.DecodePerToken()}};
  };
  const bool within_limits = Print(row, at_1k, at_16k);
  rows->push_back({{"layers", row.name},
                   {"microseconds_at_1k", microseconds(at_1k)},
                   {"microseconds_at_16k", microseconds(at_16k)},
                   {"within_limits", within_limits}});
  return within_limits;
}

struct Flags {
  uint32_t threads = 0;
  int rounds = 5;
  std::string json;
};

int Main(const Flags& flags) {
  ThreadPool pool(flags.threads);
  std::printf("ops %s, %u threads; microseconds per token; limits %.1f and %.1f\n",
              DeviceOps().name, pool.num_threads(), kPrefillLimit, kDecodeLimit);
  std::printf("%-10s  %-29s  %-29s\n", "8 layers", "prefill 1K, 16K, ratio",
              "decode at 1K, 16K, ratio");
  const Row rows[] = {{"window", Repeat("window", 8), true},
                      {"lightning", Repeat("lightning", 8), true},
                      {"gated rnn", Repeat("gated", 8), true},
                      {"full", Repeat("full", 8), false},
                      {"rerope", Repeat("rerope", 8), false}};
  nlohmann::ordered_json json = {{"ops", DeviceOps().name},
                                 {"threads", pool.num_threads()},
                                 {"rows", nlohmann::ordered_json::array()}};
  bool within_limits = true;
  for (const Row& row : rows) {
    if (!Run(row, flags.rounds, pool.AsExecutor(), &json["rows"])) within_limits = false;
  }
  if (!flags.json.empty() && !(std::ofstream(flags.json) << json.dump(1) << '\n')) {
    std::fprintf(stderr, "backends_bench: %s cannot be written\n", flags.json.c_str());
    return 1;
  }
  return within_limits ? 0 : 1;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::Flags flags;
  CLI::App app("How time per token grows with the context, for models with one kind of layer.");
  app.option_defaults()->always_capture_default();
  app.add_option("--threads", flags.threads, "0: one per logical processor");
  app.add_option("--rounds", flags.rounds, "at most 2 of a row that is only a comparison");
  app.add_option("--json", flags.json, "file for the figures");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return longstream::Main(flags);
}
