// Whole models on the CUDA device and the CUDA ops. With steps in flight and graphs they give the
// same bits, in any batch, as with one step at a time in the host's memory.
#include "backends/runtime/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/backends/caches/segment_bytes.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/backends/runtime/reused_memory.h"
#include "tests/kernels/wrapped_ops.h"
#include "tests/simt/harness/runtime.h"

namespace longstream {
namespace {

using simt::TheMachine;

constexpr uint64_t kBudget = 4 << 20;

// Runs ops in the host's memory with the same kernels as on the CUDA device. The CUDA device sets
// `wgmma`; a HostDevice does not.
template <typename Args, OpMember<Args> kOp>
struct AsOnTheDevice {
  static void Run(Stream& stream, const Args& args) {
    stream.wgmma = true;
    (CudaOps().*kOp)(stream, args);
  }
};

class SimtModelTest : public testing::TestWithParam<std::string> {
 protected:
  SimtModelTest() { TheMachine() = {}; }

  static std::unique_ptr<Model> MakeModel(Device& device, uint32_t max_batch_tokens = 256) {
    RandomShape shape;
    shape.chunk_size = 96;
    ModelSpec spec = RandomSpec(GetParam(), shape);
    ModelWeights weights = RandomWeights(spec, DType::kBF16, CudaOps());
    static const OpTable on_host = Wrapped<AsOnTheDevice>(CudaOps());
    const OpTable& ops = device.host_memory() ? on_host : CudaOps();
    return std::make_unique<Model>(std::move(spec), std::move(weights), DType::kBF16, ops,
                                   Executor(), ModelLimits{kBudget, max_batch_tokens, 6}, device);
  }
};

// Batches of five, two and one sequences. They are padded to six rows, two rows and one row. On the
// way the longest sequence gets a second part of its attention and passes a grid line.
TEST_P(SimtModelTest, GraphsInFlightGiveTheBitsOfSingleSteps) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto on_host = MakeModel(HostMemory());
  const auto on_device = MakeModel(*device);
  const std::vector<size_t> prompts = {123, 1, 64, 30, 126};
  const std::vector<int32_t> first = {3, 60, 17, 5, 9};
  const std::vector<size_t> batches = {5, 2, 1};  // sequences in each
  constexpr size_t kSteps = 4;

  std::vector<std::unique_ptr<ls_sequence>> sequences;
  std::vector<std::unique_ptr<ls_sequence>> controls;
  std::vector<ls_sequence*> handles;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t> prompt = RandomTokens(prompts[i], 71, static_cast<uint32_t>(i));
    for (auto [model, list] :
         {std::pair(on_host.get(), &controls), {on_device.get(), &sequences}}) {
      list->push_back(CreateReserved(*model, prompts[i] + 3 * kSteps));
      Prefill(*model, *list->back(), prompt);
    }
    handles.push_back(sequences.back().get());
  }
  for (const size_t count : batches) {
    const auto draws = DecodeAhead(*on_device, std::span(handles).first(count),
                                   std::span(first).first(count), kSteps, WarmSampling());
    for (size_t i = 0; i < count; ++i) {
      const auto expected = DecodeByHost(*on_host, *controls[i], first[i], kSteps, WarmSampling());
      EXPECT_TRUE(draws[i] == expected) << "sequence " << i << " of " << count;
    }
  }
  // All steps but the first of each bucket run as graphs: 2 of 6 rows, 2 of 2 rows (where the
  // second part of attention begins), and 3 of 1 row.
  EXPECT_EQ(TheMachine().graph_launches, 2u + 2u + 3u);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_TRUE(ExportBytes(*on_device, *sequences[i]) == ExportBytes(*on_host, *controls[i])) << i;
  }
}

// A snapshot is read while steps are in flight. Host and device write the same segments, and each
// imports those of the other.
TEST_P(SimtModelTest, SegmentsMoveBetweenHostAndDevice) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto on_host = MakeModel(HostMemory());
  const auto on_device = MakeModel(*device);
  const std::vector<int32_t> prompt = RandomTokens(150, 71);
  const auto control = CreateReserved(*on_host, 160);
  const auto sequence = CreateReserved(*on_device, 160);
  Prefill(*on_host, *control, prompt);
  Prefill(*on_device, *sequence, prompt);
  const std::string expected = SegmentBytes(*on_host, *control);

  const auto snapshot = on_device->BeginSnapshot(*sequence, 0);
  const int32_t token = 5;
  ls_batch_entry entry{};
  entry.sequence = sequence.get();
  entry.tokens = &token;
  entry.num_tokens = entry.is_decode = 1;
  const uint64_t ticket = on_device->Submit({sizeof(ls_batch), &entry, 1});
  std::string found = ReadSegment(snapshot->caches, SegmentKind::kSpan);
  found += ReadSegment(snapshot->caches, SegmentKind::kFixed);
  EXPECT_TRUE(found == expected);
  on_device->Wait(ticket);

  const std::vector<int32_t> more = RandomTokens(8, 71, 2);
  const auto to_device = ImportSegments(*on_device, prompt.size(), expected);
  const auto to_host = ImportSegments(*on_host, prompt.size(), found);
  on_device->Reserve(*to_device, 8);
  on_host->Reserve(*to_host, 8);
  const std::vector<float> logits = Decode(*on_host, *control, more);
  EXPECT_TRUE(Decode(*on_device, *to_device, more) == logits);
  EXPECT_TRUE(Decode(*on_host, *to_host, more) == logits);
}

// Decode rows have kernels of their own, so it matters which of the wanted rows are decode rows.
TEST_P(SimtModelTest, WantedRowsBesideOthers) {
  const auto model = MakeModel(HostMemory());
  const std::vector<int32_t> prompt = RandomTokens(40, 71), more = RandomTokens(9, 71, 2);
  std::vector<std::unique_ptr<ls_sequence>> alone;
  std::vector<std::unique_ptr<ls_sequence>> together;
  for (auto* list : {&alone, &together}) {
    for (int i = 0; i < 3; ++i) {
      list->push_back(CreateReserved(*model, 60));
      Prefill(*model, *list->back(), prompt);
    }
  }
  Decode(*model, *alone[0], std::vector<int32_t>{5});
  const std::vector<float> decoded = Decode(*model, *alone[1], std::vector<int32_t>{6});
  const std::vector<float> read = Prefill(*model, *alone[2], more);
  const std::vector<PieceResult> results =
      Step(*model, {{together[0].get(), {5}, /*is_decode=*/true, LS_ROWS_NONE},
                    {together[1].get(), {6}, /*is_decode=*/true, LS_ROWS_LAST},
                    {together[2].get(), more, /*is_decode=*/false, LS_ROWS_LAST}});
  EXPECT_TRUE(results[0].logits.empty());
  EXPECT_TRUE(results[1].logits == decoded);
  EXPECT_TRUE(results[2].logits ==
              std::vector<float>(read.end() - static_cast<ptrdiff_t>(decoded.size()), read.end()));
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(ExportBytes(*model, *together[i]) == ExportBytes(*model, *alone[i])) << i;
  }
}

// Lists of penalties and masks may grow while a graph exists. If page tables grow, the arguments of
// rows move with them. Here few rows are allowed, so there is little room for page tables.
TEST_P(SimtModelTest, GraphsAreMadeAnewWhereArgumentsMove) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto on_host = MakeModel(HostMemory(), 8);
  const auto on_device = MakeModel(*device, 8);
  std::vector<ls_token_count> history;
  for (int32_t token = 0; token < 40; ++token) history.push_back({token, 1, 1});
  ls_sampling penalised = WarmSampling();
  penalised.frequency_penalty = 0.5f;
  penalised.history = history.data();
  const std::vector<uint32_t> allowed(3, 0x77777777u);  // three of four tokens
  penalised.allowed = allowed.data();
  const auto control = CreateReserved(*on_host, 64);
  const auto sequence = CreateReserved(*on_device, 64);
  ls_sequence* const handles[] = {sequence.get()};
  const std::vector<int32_t> first = {3};
  for (const uint32_t num_history : {0u, 1u, 40u}) {
    penalised.num_history = num_history;
    EXPECT_TRUE(DecodeAhead(*on_device, handles, first, 3, penalised)[0] ==
                DecodeByHost(*on_host, *control, 3, 3, penalised));
  }
  EXPECT_GT(TheMachine().num_graphs, 0u);
  on_device->Reserve(*sequence, 1900);
  on_host->Reserve(*control, 1900);
  EXPECT_EQ(TheMachine().num_graphs, 0u);
  EXPECT_TRUE(DecodeAhead(*on_device, handles, first, 3, WarmSampling())[0] ==
              DecodeByHost(*on_host, *control, 3, 3, WarmSampling()));
}

// Memory of one session is never readable by the next.
TEST_P(SimtModelTest, ASequenceReachesNothingOfAnEarlierOne) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto used = MakeModel(*device);
  const auto fresh = MakeModel(*device);
  ExpectNothingOfEarlierSequences(*used, *fresh, *device);
}

INSTANTIATE_TEST_SUITE_P(Plans, SimtModelTest,
                         testing::Values("full+window", "rerope+gated",
                                         "chunked+lightning+leaky+nope"));

// The greedy tokens of the golden cases, generated as in a service: the prompt in one piece, then
// steps in flight.
class SimtGreedyTest : public testing::TestWithParam<std::string> {};

TEST_P(SimtGreedyTest, IsThatOfTheGoldenCase) {
  TheMachine() = {};
  TheMachine().devices[0].memory_bytes = size_t{1} << 30;
  const GoldenCase golden = ReadGoldenCase(GetParam());
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const std::string options = R"("weights": "f32", "cache": "f32", "context_limit": )" +
                              std::to_string(golden.tokens.size() + golden.greedy.size());
  const auto model = OpenGoldenCase(GetParam(), options, CudaOps(), *device);
  const auto sequence = CreateReserved(*model, golden.tokens.size() + golden.greedy.size());
  Prefill(*model, *sequence, golden.tokens);
  ls_sampling greedy = WarmSampling();
  greedy.temperature = 0;
  ls_sequence* const handles[] = {sequence.get()};
  const auto draws = DecodeAhead(*model, handles, std::span(golden.greedy).first(1),
                                 golden.greedy.size() - 1, greedy)[0];
  for (size_t i = 1; i < golden.greedy.size(); ++i) {
    EXPECT_EQ(draws[i - 1].token, golden.greedy[i]) << "greedy token " << i;
  }
  EXPECT_GT(TheMachine().graph_launches, 0u);
}

TEST(SimtOpenTest, Int8CachesAreRefused) {
  TheMachine() = {};
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  ExpectError(LS_UNIMPLEMENTED,
              "options: cache: int8 is served on the CPU only, expected auto, f32, f16 or bf16 "
              "with the ops cuda",
              [&] { OpenGoldenCase("llama", R"("cache": "int8")", CudaOps(), *device); });
}

TEST(SimtOpenTest, MixturesOfExpertsAreRefused) {
  TheMachine() = {};
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  ExpectError(LS_UNIMPLEMENTED,
              testing::EndsWith("has mixtures of experts, which the ops cuda do not serve; set "
                                "device: cpu"),
              [&] { OpenGoldenCase("mixtral", "", CudaOps(), *device); });
}

INSTANTIATE_TEST_SUITE_P(Cases, SimtGreedyTest,
                         testing::Values("llama", "hwfa2_rerope", "hypenet_published"));

}  // namespace
}  // namespace longstream
