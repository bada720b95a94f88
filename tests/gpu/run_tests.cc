// main of the test programs, and the ops that their tests run on.
#include "tests/gpu/run_tests.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/gpu/managed_heap.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {
namespace {

// An op as tests expect it: done when it returns.
template <typename Args, void (*OpTable::*kOp)(Stream&, const Args&)>
void AndWait(Stream& stream, const Args& args) {
  (CudaOps().*kOp)(stream, args);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return;
  ADD_FAILURE() << cudaGetErrorName(error) << ": " << cudaGetErrorString(error);
  stream.Fail(OpStatus::kDeviceError);
}

OpTable WaitingOps() {
  OpTable ops = CudaOps();
  ops.embed = AndWait<EmbedArgs, &OpTable::embed>;
  ops.norm_project = AndWait<NormProjectArgs, &OpTable::norm_project>;
  ops.norm_rows = AndWait<NormRowsArgs, &OpTable::norm_rows>;
  ops.soft_cap = AndWait<SoftCapArgs, &OpTable::soft_cap>;
  ops.gated_mlp = AndWait<GatedMlpArgs, &OpTable::gated_mlp>;
  ops.project_residual = AndWait<ProjectResidualArgs, &OpTable::project_residual>;
  ops.rope_table = AndWait<RopeTableArgs, &OpTable::rope_table>;
  ops.logit_scale = AndWait<LogitScaleArgs, &OpTable::logit_scale>;
  ops.rope_cache_write = AndWait<RopeCacheWriteArgs, &OpTable::rope_cache_write>;
  ops.paged_attention = AndWait<PagedAttentionArgs, &OpTable::paged_attention>;
  ops.window_attention = AndWait<WindowAttentionArgs, &OpTable::window_attention>;
  ops.rerope_attention = AndWait<ReropeAttentionArgs, &OpTable::rerope_attention>;
  ops.ring_write = AndWait<RingWriteArgs, &OpTable::ring_write>;
  ops.ring_rebuild = AndWait<RingRebuildArgs, &OpTable::ring_rebuild>;
  ops.linear_recurrence = AndWait<LinearRecurrenceArgs, &OpTable::linear_recurrence>;
  ops.sample = AndWait<SampleArgs, &OpTable::sample>;
  ops.log_probs = AndWait<LogProbsArgs, &OpTable::log_probs>;
  ops.finite_rows = AndWait<FiniteRowsArgs, &OpTable::finite_rows>;
  return ops;
}

// Of the whole program, set by RunTestsOnGpu.
struct Setting {
  OpenedDevice opened;
  TestHeap heap = TestHeap::kHost;
};
Setting& TheSetting() {
  static Setting setting;
  return setting;
}

}  // namespace

std::vector<std::string> NamesUnderTest() { return {"cuda"}; }

LibraryTraits TraitsUnderTest(const std::string&) {
  return {.attention = LibraryTraits::Attention::kRoundsPrefill, .checks_descriptors = false};
}

// A model waits for its device itself; waiting for each of its ops would end the recording of a
// graph.
const OpTable& OpsUnderTest(const std::string&) {
  static const OpTable waiting = WaitingOps();
  return TheSetting().heap == TestHeap::kManaged ? waiting : CudaOps();
}

Device& DeviceUnderTest(const std::string&) { return *TheSetting().opened.device; }

void RunTestsOnGpu(int argc, char** argv, TestHeap heap) {
  TheSetting() = {OpenDevice("cuda"), heap};
  std::string why = TheSetting().opened.why;
  if (why.empty() && heap == TestHeap::kManaged) why = StartManagedHeap();
  if (!why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::_Exit(kNoDevice);
  }
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace longstream
