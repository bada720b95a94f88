// Measures the peak of the processor's tile unit (AMX) in bf16 and int8, beside the other limits of
// yardstick.h. Without a tile unit, only says so.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "kernels/core/instruction_set.h"

int main(int argc, char** argv) {
  if (!longstream::HasAmx()) {
    std::puts(longstream::NoAmxReason().c_str());
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
