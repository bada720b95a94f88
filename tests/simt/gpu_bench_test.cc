// Runs gpu_bench on the CUDA device of the harness: everything that it measures on a GPU, in
// smaller sizes. The times are the harness's and mean nothing.
#include "tests/bench/gpu/gpu_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "tests/bench/timing.h"
#include "tests/simt/harness/runtime.h"

namespace longstream {

// Calls run() twice and times the second call.
double GpuBench::MedianSeconds(size_t workspace_bytes, int count,
                               const std::function<void(Stream& stream, int i)>& run) {
  const DeviceMemory workspace = Memory(workspace_bytes);
  Stream stream = device_.MakeStream(executor_, workspace.data(), workspace.size());
  EXPECT_GT(count, 0);
  run(stream, 0);
  return SecondsOf([&] {
    run(stream, 1);
    EXPECT_TRUE(stream.ok()) << "status " << static_cast<int>(stream.status);
    EXPECT_EQ(device_.Synchronize(), OpStatus::kOk);
  });
}

void GpuBench::MeasureYardsticks() { copy_bandwidth_ = product_rate_ = 1e9; }

namespace {

using simt::TheMachine;

constexpr BenchSizes kSmall = {.divisor = 256,
                               .shape = "tiny",
                               .batch_shape = "tiny",
                               .most_streams = 3,
                               .warm_steps = 3,
                               .steps = 3,
                               .rounds = 1};

class GpuBenchTest : public testing::Test {
 protected:
  GpuBenchTest() {
    TheMachine() = {};
    device_ = OpenDevice("cuda").device;
    bench_ = std::make_unique<GpuBench>(*device_, Executor(), kSmall);
    bench_->MeasureYardsticks();
  }

  // Runs the part. Expects each of the figures `names` once, with a finite value, and no others.
  void ExpectFigures(void (*part)(GpuBench&), const std::set<std::string>& names) {
    part(*bench_);
    std::set<std::string> found;
    for (const Figure& figure : bench_->report().figures()) {
      EXPECT_EQ(figure.missing, "") << figure.name;
      EXPECT_GT(figure.value, 0) << figure.name;
      EXPECT_TRUE(std::isfinite(figure.value)) << figure.name;
      EXPECT_GT(figure.fraction.value_or(1), 0) << figure.name;
      EXPECT_TRUE(found.insert(figure.name).second) << figure.name << " twice";
    }
    EXPECT_THAT(found, testing::ContainerEq(names));
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<GpuBench> bench_;
};

TEST_F(GpuBenchTest, Projections) {
  std::set<std::string> names;
  for (const std::string type : {"bf16", "int8", "int4"}) {
    for (const char* weight : {"qkv", "o", "gate, up", "down", "head"}) {
      names.insert("GEMV " + type + " " + weight);
      if (type != "bf16") continue;
      for (const char* how : {"in a graph", "16 rows", "64 rows", "256 rows"}) {
        names.insert("GEMV bf16 " + std::string(weight) + ", " + how);
      }
    }
    names.insert("prefill 512 rows " + type + " down");
  }
  ExpectFigures(BenchProjections, names);
}

TEST_F(GpuBenchTest, Attention) {
  ExpectFigures(BenchAttention,
                {"decode attention 1 x 256K", "decode attention 16 x 16K", "decode ReRoPE 1 x 256K",
                 "decode ReRoPE 16 x 16K", "window decode 2048", "prefill attention 16K",
                 "prefill attention 32K", "prefill attention 16K, mma.sync"});
}

TEST_F(GpuBenchTest, Recurrence) {
  ExpectFigures(BenchRecurrence, {"RNN decode, batch 64", "RNN prefill 32K",
                                  "gated RNN prefill 32K", "gated RNN prefill 32K, 1024 x 2048"});
}

TEST_F(GpuBenchTest, Sampling) {
  ExpectFigures(BenchSampling, {"sample greedy", "sample top-p", "sample top-k, top-p"});
}

TEST_F(GpuBenchTest, Launches) {
  std::set<std::string> names;
  for (const std::string where : {"stream", "graph"}) {
    for (const char* how : {"", ", overlapping"}) {
      for (const char* memory : {"", ", alternating memory"}) {
        names.insert("a kernel of a " + where + how + memory);
      }
    }
  }
  ExpectFigures(BenchLaunches, names);
}

TEST_F(GpuBenchTest, MeasuresOnlyWhatMatches) {
  bench_->report().Match("top-p");
  ExpectFigures(BenchSampling, {"sample top-p", "sample top-k, top-p"});
}

TEST_F(GpuBenchTest, Steps) {
  std::set<std::string> names = {"dense / HypeNet 32K", "dense / HypeNet 128K",
                                 "dense / HypeNet 512K", "dense / 2 full + w 64 512K"};
  for (const std::string plan : {"dense", "2 full + w 64", "HypeNet"}) {
    for (const char* context : {"4K", "32K", "128K", "512K"}) {
      names.insert("step " + plan + " " + context);
    }
  }
  ExpectFigures(BenchSteps, names);
  EXPECT_GT(TheMachine().graph_launches, 0u);
}

TEST_F(GpuBenchTest, Batches) {
  std::set<std::string> names;
  for (const std::string plan : {"dense", "HypeNet"}) {
    for (const char* streams : {"1", "16", "64", "256"}) {
      names.insert("batch " + plan + " x " + streams);
      names.insert("waiting " + plan + " x " + streams);
    }
  }
  ExpectFigures(BenchBatches, names);
  EXPECT_GT(TheMachine().graph_launches, 0u);
}

// If other programs hold the GPU's memory, the report still has every figure, with the reason why
// it has no value. The names of the figures are those that tools/gpu/peers.py looks up.
TEST_F(GpuBenchTest, WithoutMemoryEveryFigureIsMissing) {
  TheMachine().devices[0].memory_bytes = 4096;
  for (void (*const part)(GpuBench&) : {BenchProjections, BenchAttention, BenchRecurrence,
                                        BenchSampling, BenchSteps, BenchBatches}) {
    part(*bench_);
  }
  std::set<std::string> names;
  for (const Figure& figure : bench_->report().figures()) {
    EXPECT_THAT(figure.missing, testing::AnyOf(testing::HasSubstr("the device has no "),
                                               "a step of either is missing"))
        << figure.name;
    names.insert(figure.name);
  }
  EXPECT_EQ(names.size(), 38u + 8u + 4u + 3u + 16u + 16u);

  std::ifstream peers(LONGSTREAM_SOURCE_DIR "/tools/gpu/peers.py");
  const std::regex ratio("    \"(.+)\": [0-9.]+,");  // a line of LEAST_RATIO
  int num_ratios = 0;
  for (std::string line; std::getline(peers, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, ratio)) continue;
    EXPECT_TRUE(names.contains(match[1])) << match[1];
    ++num_ratios;
  }
  EXPECT_EQ(num_ratios, 7);
}

}  // namespace
}  // namespace longstream
