// The models whose steps are measured: the 14B shape (40 layers, d 5120, 40/8 heads of 128, ff
// 17408, vocabulary 151936, untied head) in three layer plans.
#ifndef LONGSTREAM_TESTS_BENCH_GPU_STEP_PLANS_H_
#define LONGSTREAM_TESTS_BENCH_GPU_STEP_PLANS_H_

#include <string>
#include <vector>

#include "backends/common/layers/model_spec.h"

namespace longstream {

struct StepPlan {
  std::string name;
  ModelSpec spec;
};

// Each as its backend reads it from a config.json: "dense"; "2 full + w 64", of HWFA2; "HypeNet",
// the published layers with every fourth layer attention.
std::vector<StepPlan> StepPlans();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_GPU_STEP_PLANS_H_
