// gpu_bench measures how near the CUDA backends come to the limits of a GPU. It needs a GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>

#include "kernels/core/thread_pool.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int kMissesBars = 1;
constexpr int kNoDevice = 2;
constexpr int kUsageError = 3;

constexpr char kUsage[] =
    "usage: gpu_bench [--json FILE] [--match TEXT]\n"
    "                 [--only projections|attention|recurrence|sampling|launches|steps|batches]\n"
    "Prints a table of medians against the copy bandwidth and the rate of bf16 products, both "
    "taken\n"
    "in the same run. --match measures only figures whose names contain TEXT. Exit code: 0 all "
    "bars are reached, 1 some are not, 2 no GPU.\n";

struct Part {
  const char* name;
  void (*run)(GpuBench& bench);
};
constexpr Part kParts[] = {{"projections", BenchProjections}, {"attention", BenchAttention},
                           {"recurrence", BenchRecurrence},   {"sampling", BenchSampling},
                           {"launches", BenchLaunches},       {"steps", BenchSteps},
                           {"batches", BenchBatches}};

struct Arguments {
  std::string json;
  std::string only;
  std::string match;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    if (std::strcmp(argv[i], "--json") == 0) {
      arguments->json = argv[i + 1];
    } else if (std::strcmp(argv[i], "--only") == 0) {
      arguments->only = argv[i + 1];
    } else if (std::strcmp(argv[i], "--match") == 0) {
      arguments->match = argv[i + 1];
    } else {
      return false;
    }
  }
  return true;
}

// Name of the current device: the device that was opened last.
std::string NameOfDevice() {
  cudaDeviceProp properties{};
  int ordinal = 0;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (cudaGetDevice(&ordinal) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
    return "?";
  }
  return std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem >> 30) +
         " GiB, driver for CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

int Run(const Arguments& arguments) {
  const OpenedDevice opened = OpenDevice("cuda");
  if (opened.device == nullptr) {
    std::fprintf(stderr, "%s\n", opened.why.c_str());
    return kNoDevice;
  }
  ThreadPool pool(0);
  GpuBench bench(*opened.device, pool.AsExecutor());
  const std::string device = NameOfDevice();
  std::printf("%s\n", device.c_str());
  bench.MeasureYardsticks();
  bench.report().Match(arguments.match);
  for (const Part& part : kParts) {
    if (arguments.only.empty() || arguments.only == part.name) part.run(bench);
  }
  if (!arguments.json.empty()) {
    std::ofstream file(arguments.json);
    file << bench.report().Json(device) << '\n';
    if (!file.flush()) {
      std::fprintf(stderr, "gpu_bench: %s cannot be written\n", arguments.json.c_str());
      return kUsageError;
    }
  }
  const int failed = bench.report().num_failed();
  std::printf("%d of what is asked for is not reached\n", failed);
  return failed == 0 ? 0 : kMissesBars;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::Arguments arguments;
  if (!longstream::Parse(argc, argv, &arguments)) {
    std::fputs(longstream::kUsage, stderr);
    return longstream::kUsageError;
  }
  try {
    return longstream::Run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return longstream::kUsageError;
  }
}
