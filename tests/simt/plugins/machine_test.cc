// The errors that a CUDA plugin reports through the ABI on machines that lack something (the table
// of docs/cuda.md). simt_dense runs on machines that LONGSTREAM_SIMT_MACHINE describes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/conformance/model.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/test_host.h"

namespace longstream {
namespace {

using conformance::Decode;
using conformance::Model;
using conformance::OpenOptions;
using conformance::Prefill;
using conformance::Sequence;
using testing::AnyOf;
using testing::MatchesRegex;

const std::string kModel = LONGSTREAM_SOURCE_DIR "/tests/golden/llama";
constexpr uint64_t kEnough = uint64_t{8} << 20;  // bytes of a device

struct Opened {
  ls_code code = LS_OK;
  std::string error;
};

class PluginMachineTest : public testing::Test {
 protected:
  PluginMachineTest() { SetMemory(kEnough); }
  ~PluginMachineTest() override { unsetenv("LONGSTREAM_SIMT_MACHINE"); }

  static void SetMachine(const std::string& settings) {
    setenv("LONGSTREAM_SIMT_MACHINE", settings.c_str(), 1);
  }
  // Sets the memory of the device from the next model_open on, also for models that are already
  // open.
  static void SetMemory(uint64_t bytes) { SetMachine("memory=" + std::to_string(bytes)); }

  const ls_backend& backend() const { return *plugin_.backend(); }

  // Opens a model, and closes it if that succeeds.
  Opened Open(const std::string& device = "cuda:0") {
    OpenOptions options = options_;
    options.device = device;
    return Open(options);
  }
  Opened Open(const OpenOptions& options) {
    ls_model* model = nullptr;
    Opened opened;
    opened.code = TryOpen(backend(), kModel, options, host_, &model, &opened.error);
    if (opened.code == LS_OK) backend().model_close(model);
    return opened;
  }
  void ExpectError(ls_code code, const std::string& sentence,
                   const std::string& device = "cuda:0") {
    const Opened opened = Open(device);
    EXPECT_EQ(opened.code, code);
    EXPECT_EQ(opened.error, sentence);
  }

  const OpenOptions options_ = {.options = R"({"cache": "f32"})",
                                .cache_bytes_budget = 1 << 20,
                                .max_batch_tokens = 64,
                                .max_batch_sequences = 4};
  const conformance::TestHost host_{1};
  const conformance::PluginFile plugin_{LONGSTREAM_TEST_PLUGIN_DIR "/simt_dense.so"};
};

// Some devices do not exist, others cannot be used. The sentences are those of the CUDA device;
// cuda_device_test.cc tests all of them.
TEST_F(PluginMachineTest, NoSuchDevice) {
  SetMachine("devices=2");
  EXPECT_EQ(Open("cuda:0").code, LS_OK);
  EXPECT_EQ(Open("cuda:1").code, LS_OK);
  ExpectError(LS_NOT_FOUND, "there is no device 'cuda:2' here, the last one is cuda:1", "cuda:2");
  ExpectError(LS_NOT_FOUND, "there is no device 'cpu' here, expected 'cuda' or 'cuda:N'", "cpu");
  SetMachine("driver=0");
  ExpectError(LS_NOT_FOUND,
              "no CUDA device: the NVIDIA driver is not installed; install it, or use device cpu");
  SetMachine("");
  EXPECT_EQ(Open().code, LS_OK);
  SetMachine("devices=4,capability:0=75,capability:1=103,shared:2=101376,capability:3=75");
  ExpectError(LS_UNAVAILABLE,
              "cuda:0, cuda:3: SIMT harness has compute capability 7.5, expected 8.x or 9.0; "
              "cuda:1: SIMT harness has compute capability 10.3, expected 8.x or 9.0; cuda:2: SIMT "
              "harness has 101376 bytes of shared memory for a block, expected at least 166912; "
              "use device cpu",
              "cuda");
  SetMachine("devices=2,capability:0=75");
  EXPECT_EQ(Open("cuda").code, LS_OK);
}

// Models with device "cuda" spread over the devices: the first takes the device with the most free
// memory, the second the one that then has the most.
TEST_F(PluginMachineTest, ModelsSpreadOverDevices) {
  const std::string machine = "devices=3,memory:0=1000,memory:1=" + std::to_string(kEnough) +
                              ",memory:2=" + std::to_string(kEnough - 1000);
  SetMachine(machine);
  OpenOptions options = options_;
  options.cache_bytes_budget = 0;  // 0: all memory that is free
  options.device = "cuda";
  const Model first(backend(), kModel, options, host_);   // on cuda:1
  const Model second(backend(), kModel, options, host_);  // on cuda:2
  for (const char* device : {"cuda", "cuda:0", "cuda:1", "cuda:2"}) {
    options.device = device;
    ls_model* model = nullptr;
    std::string error;
    EXPECT_EQ(TryOpen(backend(), kModel, options, host_, &model, &error), LS_RESOURCE_EXHAUSTED)
        << device;
  }
}

// Memory may run out at any allocation. The error names the purpose and the bytes, and no memory
// stays allocated.
TEST_F(PluginMachineTest, TooLittleMemoryForAModel) {
  SetMemory(1000);
  EXPECT_THAT(Open().error, MatchesRegex("weights: the device has no [0-9]+ bytes, 1000 are free"));
  uint64_t least = 0;  // the least memory that is enough
  uint64_t refusals = 0;
  for (uint64_t memory = 0; least == 0 && memory <= kEnough; memory += kEnough / 512) {
    SetMemory(memory);
    const Opened opened = Open();
    if (opened.code == LS_OK) {
      least = memory;
      continue;
    }
    ++refusals;
    EXPECT_EQ(opened.code, LS_RESOURCE_EXHAUSTED) << memory << " bytes: " << opened.error;
    EXPECT_THAT(opened.error,
                AnyOf(MatchesRegex("[a-z ]+: the device has no [0-9]+ bytes, [0-9]+ are free"),
                      MatchesRegex("caches: a sequence of 1024 tokens needs 262144 bytes, [0-9]+ "
                                   "of the device's are left beside weights, activations and the "
                                   "[0-9]+ that it needs itself")))
        << memory << " bytes";
  }
  EXPECT_GT(refusals, 8u);
  for (int time = 0; time < 3; ++time) {
    SetMemory(least);
    EXPECT_EQ(Open().code, LS_OK) << "memory of models that are closed is kept";
    SetMemory(least - kEnough / 512);
    EXPECT_EQ(Open().code, LS_RESOURCE_EXHAUSTED);
  }
}

// The memory of a step is allocated before the caches. The pools of the caches take the rest,
// except for at most a sixteenth. The longest possible session and the largest step have room.
TEST_F(PluginMachineTest, WithoutABudgetCachesTakeWhatIsLeft) {
  constexpr uint64_t kMemory = uint64_t{4} << 20;
  constexpr uint32_t kRows = 512;
  OpenOptions options = {
      .options = R"({"cache": "f32"})", .max_batch_tokens = kRows, .max_batch_sequences = 16};
  SetMemory(kMemory);
  Model model(backend(), kModel, options, host_);
  const ls_memory memory = model.Memory();
  EXPECT_GT(memory.workspace, kMemory / 16);
  const uint64_t rest = kMemory / 16 * 15 - memory.weights - memory.workspace;
  EXPECT_LE(memory.budget, rest);
  // A sixteenth is for step arguments and the spare page.
  EXPECT_GT(memory.budget, rest - kMemory / 16);
  EXPECT_EQ(Open(options).code, LS_RESOURCE_EXHAUSTED) << "there is nothing left";

  Sequence sequence = model.Create();
  sequence.Reserve(1024);
  for (const uint32_t rows : {kRows, kRows - 8}) {
    conformance::Entry entry = Prefill(sequence, std::vector<int32_t>(rows, 7));
    entry.logit_rows = entry.log_prob_rows = LS_ROWS_ALL;
    entry.num_top = LS_MAX_TOP;
    EXPECT_EQ(model.Step(entry).logits.size(), size_t{rows} * model.info().vocabulary_size);
  }
  const ls_sampling greedy = conformance::Greedy();
  for (int time = 0; time < 4; ++time) {
    conformance::Entry entry = Decode(sequence, 3);
    entry.sampling = &greedy;
    EXPECT_GE(model.Step(entry).sampled, 0);
  }
}

// With memory for the model's other needs but not for a session, the error is about caches.
TEST_F(PluginMachineTest, TooLittleMemoryForASession) {
  struct Case {
    uint64_t budget;
    uint64_t needed;
    const char* begin;
  };
  for (const Case& test :
       {Case{0, 262144, "caches: a sequence of 1024 tokens needs 262144 bytes, "},
        Case{100000, 100000, "caches: cache_bytes_budget is 100000 bytes, "}}) {
    OpenOptions options = options_;
    options.cache_bytes_budget = test.budget;
    const std::string sentence = std::string(test.begin) + "%" SCNu64 +
                                 " of the device's are left beside weights, activations and the %" +
                                 SCNu64 + " that it needs itself%c";
    uint64_t refusals = 0;
    uint64_t memory = 0;
    for (Opened opened = {LS_UNAVAILABLE, ""}; memory < kEnough && opened.code != LS_OK;) {
      memory += 16 << 10;
      SetMemory(memory);
      opened = Open(options);
      if (!opened.error.starts_with("caches: ")) continue;
      ++refusals;
      EXPECT_EQ(opened.code, LS_RESOURCE_EXHAUSTED);
      uint64_t left = 0;
      uint64_t own = 0;
      char end = 0;
      ASSERT_EQ(std::sscanf((opened.error + ".").c_str(), sentence.c_str(), &left, &own, &end), 3)
          << opened.error;
      EXPECT_EQ(end, '.');
      EXPECT_LT(left, test.needed);
      EXPECT_EQ(own, memory / 16);
    }
    EXPECT_GE(refusals, 3u);
    EXPECT_LT(memory, kEnough);
  }
}

// The first model on a device takes its budget. A later model without a budget takes all the rest.
TEST_F(PluginMachineTest, TheSecondModelGetsWhatIsLeft) {
  OpenOptions options = options_;
  const Model first(backend(), kModel, options, host_);
  EXPECT_EQ(first.Memory().budget, options.cache_bytes_budget);
  options.cache_bytes_budget = 0;
  const Model second(backend(), kModel, options, host_);
  EXPECT_GT(second.Memory().budget, kEnough / 2);
  EXPECT_LT(second.Memory().budget, kEnough - kEnough / 16 - first.Memory().budget);
  EXPECT_EQ(Open(options).code, LS_RESOURCE_EXHAUSTED);
}

// The memory for the arguments of a step grows with the longest reservation. If another process has
// taken the rest of the device, a longer reservation is refused and everything else goes on.
TEST_F(PluginMachineTest, TooLittleMemoryForALongerReservation) {
  const OpenOptions options = {.options = R"({"context_limit": 8192})",
                               .cache_bytes_budget = 4 << 20,
                               .max_batch_tokens = 64,
                               .max_batch_sequences = 16};
  Model model(backend(), kModel, options, host_);
  Sequence sequence = model.Create();
  sequence.Reserve(40);
  model.Step(Prefill(sequence, {3, 1, 4, 1, 5}));
  Sequence control = sequence.Fork();
  control.Reserve(20);

  SetMemory(0);
  EXPECT_EQ(Open().code, LS_RESOURCE_EXHAUSTED);
  std::string error;
  EXPECT_EQ(sequence.TryReserve(8000, &error), LS_RESOURCE_EXHAUSTED);
  EXPECT_THAT(error,
              MatchesRegex("arguments of a step: the device has no [0-9]+ bytes, 0 are free"));
  EXPECT_EQ(sequence.position(), 5u);
  const auto expected = model.Step(Decode(control, 9));
  const auto found = model.Step(Decode(sequence, 9));
  EXPECT_EQ(found.logits, expected.logits);

  SetMemory(kEnough);
  EXPECT_EQ(Open().code, LS_OK);
  EXPECT_EQ(sequence.TryReserve(8000, &error), LS_OK) << error;
  EXPECT_EQ(model.Step(Decode(sequence, 2)).logits, model.Step(Decode(control, 2)).logits);
}

// The lists of penalties come with a step. Their memory grows when they do.
TEST_F(PluginMachineTest, TooLittleMemoryForTheListsOfAStep) {
  Model model(backend(), kModel, options_, host_);
  Sequence sequence = model.Create();
  sequence.Reserve(20);
  model.Step(Prefill(sequence, {3, 1, 4, 1, 5}));
  Sequence other = sequence.Fork();
  other.Reserve(15);
  std::vector<ls_token_count> history;
  for (int32_t token = 0; token < 40; ++token) history.push_back({token, 1, 1});
  ls_sampling sampling = conformance::Greedy();
  sampling.frequency_penalty = 0.5f;
  sampling.history = history.data();
  sampling.num_history = static_cast<uint32_t>(history.size());
  const auto with_penalty = [&](Sequence& of) {
    conformance::Entry entry = Decode(of, 9);
    entry.sampling = &sampling;
    return entry;
  };

  SetMemory(0);
  const conformance::Output failed = model.Step(std::vector{with_penalty(sequence)}).front();
  EXPECT_EQ(failed.code, LS_RESOURCE_EXHAUSTED);
  EXPECT_THAT(failed.message,
              MatchesRegex("arguments of a step: the device has no [0-9]+ bytes, 0 are free"));
  const auto without = model.Step(Decode(other, 9));

  SetMemory(kEnough);
  EXPECT_EQ(sequence.Truncate(5), 5u);
  const auto drawn = model.Step(with_penalty(sequence));
  EXPECT_EQ(drawn.logits, without.logits);
  EXPECT_GE(drawn.sampled, 0);
}

}  // namespace
}  // namespace longstream
