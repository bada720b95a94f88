// Every checkpoint of tests/golden loads: exactly one backend claims it first, its spec fits its
// tensors, and every tensor is read, except those that the family ignores.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "backends/checkpoint/quantised/open_checkpoint.h"
#include "backends/packing/load_weights.h"
#include "kernels/reference/reference_ops.h"

namespace longstream {
namespace {

const std::string kGolden = std::string(LONGSTREAM_SOURCE_DIR) + "/tests/golden";

struct Backend {
  const char* name;
  int (*fit)(const Config&, std::string*);
  ModelSpec (*plan)(const Config&, const LoadOptions&);
};

constexpr Backend kBackends[] = {{"dense", DenseFit, DensePlan},
                                 {"hwfa2", Hwfa2Fit, Hwfa2Plan},
                                 {"hypenet", HypenetFit, HypenetPlan}};

std::vector<std::string> GoldenCases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (std::filesystem::exists(entry.path() / "config.json")) {
      names.push_back(entry.path().filename());
    }
  }
  return names;
}

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const Backend& BestFit(const std::string& directory) {
  const Backend* best = nullptr;
  int best_fit = 0;
  for (const Backend& backend : kBackends) {
    std::string why;
    const int fit = backend.fit(Config(directory), &why);
    EXPECT_TRUE(fit == 0 || fit != best_fit) << "two backends fit alike: " << backend.name;
    if (fit <= best_fit) continue;
    best = &backend;
    best_fit = fit;
  }
  if (best == nullptr) throw std::runtime_error("no backend fits " + directory);
  return *best;
}

class GoldenCaseTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenCaseTest, LoadsWhole) {
  const std::string directory = kGolden + "/" + GetParam();
  const bool overridden = std::filesystem::exists(directory + "/overrides.json");
  const Backend& backend = overridden ? kBackends[1] : BestFit(directory);
  const std::string overrides = overridden ? TextOf(directory + "/overrides.json") : "{}";
  const LoadOptions options(overrides.c_str());
  const ModelSpec spec = backend.plan(Config(directory), options);

  OpTable ops;
  ops.packed_bytes = reference::PackedBytes;
  ops.pack = reference::Pack;
  ops.compress = reference::Compress;
  const Checkpoint checkpoint = OpenCheckpoint(directory, Config(directory));
  const ModelWeights weights = LoadWeights(spec, checkpoint, options, ops, Executor());

  EXPECT_EQ(weights.layers.size(), spec.layers.size());
  uint64_t elements = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (std::any_of(spec.names.ignored.begin(), spec.names.ignored.end(),
                    [&](std::string_view begin) { return name.starts_with(begin); })) {
      continue;
    }
    // The model has no such bias; this one is zeros.
    if (GetParam() == "quantised_gptq_8bits" && name.ends_with("o_proj.bias")) continue;
    elements += tensor->num_bytes / SizeOf(*tensor->type);
    if (tensor->groups) continue;
    EXPECT_EQ(weights.embedding.type, *tensor->type) << name;
  }
  EXPECT_EQ(weights.num_parameters, elements);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCaseTest, ::testing::ValuesIn(GoldenCases()),
                         [](const auto& test) { return test.param; });

// The checkpoints include the three stored types and shards. Without them the test above shows
// less.
TEST(GoldenLoadTest, CoversTypesAndShards) {
  std::set<std::string> types;
  int sharded = 0;
  for (const std::string& name : GoldenCases()) {
    const Checkpoint checkpoint(kGolden + "/" + name);
    types.insert(checkpoint.tensors().begin()->second->type_name);
    sharded += std::filesystem::exists(kGolden + "/" + name + "/model.safetensors.index.json");
  }
  EXPECT_EQ(types, (std::set<std::string>{"BF16", "F16", "F32"}));
  EXPECT_GE(sharded, 1);
}

}  // namespace
}  // namespace longstream
