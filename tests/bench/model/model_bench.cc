// How fast whole models run on this processor: decode and prefill behind contexts of any depth, as
// a table, as JSON, or slice by slice for a driver that alternates between two programs
// (tools/bench/compare.py, tools/bench/service.py).
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/checkpoint/load_options.h"
#include "kernels/core/thread_pool.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/model/load_times.h"
#include "tests/bench/model/options.h"
#include "tests/bench/model/slice.h"
#include "tests/bench/model/sliced_model.h"
#include "tests/bench/plans/bench_plans.h"
#include "tests/bench/plans/random_checkpoint.h"

namespace longstream {
namespace {

constexpr int kUsageError = 2;

struct NamedModel {
  std::string plan;
  DType weights;
  Executor executor;
};

SlicedModel Open(const BenchOptions& options, const NamedModel& named) {
  const LoadOptions load(("{\"cache\": \"" + options.cache + "\"}").c_str());
  return SlicedModel(
      BenchSpec(options.shape, named.plan),
      {.weights = named.weights, .cache = load.CacheType(named.weights), .batch = options.batch},
      named.executor);
}

std::string Title(const BenchOptions& options, const NamedModel& named) {
  return options.shape + " " + named.plan + ", weights " + NameOf(named.weights) + ", cache " +
         options.cache + ", batch " + std::to_string(options.batch) + ", threads " +
         std::to_string(named.executor.num_threads);
}

// Runs rounds of all slices in turn. The first round is not counted.
nlohmann::ordered_json Measure(const BenchOptions& options, const NamedModel& named) {
  SlicedModel model = Open(options, named);
  const std::vector<SliceKind> kinds = options.slices();
  std::vector<std::vector<Slice>> slices(kinds.size());
  for (int round = -1; round < options.rounds; ++round) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      const Slice slice = model.Run(kinds[i]);
      if (round >= 0) slices[i].push_back(slice);
    }
  }
  std::printf("\n%s\n%s\n", Title(options, named).c_str(), SummaryHeader().c_str());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < kinds.size(); ++i) {
    std::printf("%s\n", SummaryLine(kinds[i], slices[i]).c_str());
    if (options.op_times) std::printf("%s\n", OpLine(slices[i]).c_str());
    for (const Slice& slice : slices[i]) {
      rows.push_back(nlohmann::ordered_json::parse(ToJson(kinds[i], slice)));
    }
  }
  std::fflush(stdout);
  return {{"plan", named.plan},
          {"weights", NameOf(named.weights)},
          {"threads", named.executor.num_threads},
          {"slices", rows}};
}

int Tables(const BenchOptions& options) {
  std::printf("ops %s\n", DeviceOps().name);
  nlohmann::ordered_json json = {{"shape", options.shape},
                                 {"cache", options.cache},
                                 {"batch", options.batch},
                                 {"ops", DeviceOps().name},
                                 {"models", nlohmann::ordered_json::array()}};
  for (const uint32_t threads : options.threads) {
    ThreadPool pool(threads);
    for (const std::string& plan : options.plans) {
      for (const DType weights : options.weights) {
        json["models"].push_back(Measure(options, {plan, weights, pool.AsExecutor()}));
      }
    }
  }
  if (options.json.empty()) return 0;
  std::ofstream file(options.json);
  file << json.dump(1) << '\n';
  if (file.flush()) return 0;
  std::fprintf(stderr, "model_bench: %s cannot be written\n", options.json.c_str());
  return 1;
}

// Writes a line of JSON when the model is loaded, then one for each line of input.
int Serve(const BenchOptions& options, ThreadPool& pool) {
  const NamedModel named{options.plans.front(), options.weights.front(), pool.AsExecutor()};
  SlicedModel model = Open(options, named);
  const nlohmann::ordered_json ready = {
      {"ready", Title(options, named)}, {"threads", pool.num_threads()}, {"ops", DeviceOps().name}};
  std::cout << ready.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const SliceKind kind = ParseSlice(line);
      std::cout << ToJson(kind, model.Run(kind)) << std::endl;
    } catch (const std::exception& error) {
      std::cout << nlohmann::json({{"error", error.what()}}).dump() << std::endl;
    }
  }
  return 0;
}

int WriteCheckpoint(const BenchOptions& options) {
  const std::string& plan = options.plans.front();
  WriteRandomCheckpoint(BenchSpec(options.shape, plan), BenchConfig(options.shape, plan),
                        options.checkpoint);
  return 0;
}

int Load(const BenchOptions& options, ThreadPool& pool) {
  const ModelSpec spec = BenchSpec(options.shape, options.plans.front());
  std::printf("%s\n", LoadHeader().c_str());
  for (const DType weights : options.weights) {
    const LoadTimes times =
        MeasureLoading(spec, options.load, weights, options.rounds, pool.AsExecutor());
    std::printf("%s\n", LoadLine(weights, times).c_str());
  }
  return 0;
}

int Run(const BenchOptions& options) {
  if (!options.checkpoint.empty()) return WriteCheckpoint(options);
  if (options.load.empty() && !options.serve) return Tables(options);
  ThreadPool pool(options.threads.front());
  return options.load.empty() ? Serve(options, pool) : Load(options, pool);
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  CLI::App app;
  longstream::BenchOptions options;
  longstream::AddBenchOptions(app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : longstream::kUsageError;
  }
  try {
    return longstream::Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_bench: %s\n", error.what());
    return 1;
  }
}
