// A session is exported where it ran and imported on other kernels: AVX-512, AVX2, and CUDA as the
// harness executes it, in every direction. It goes on with its caches, and its greedy tokens differ
// only where the two largest logits are nearly equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "kernels/core/instruction_set.h"
#include "tests/backends/checkpoint/wide_vocabulary.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;

using client::Generation;

constexpr int64_t kVocabulary = 256;
constexpr uint32_t kTop = 20;  // the most that a request may ask for

// How far a logit may be off, in standard deviations of its row, for weights and caches in f32:
// between two instruction sets of a CPU, and with tensor cores.
constexpr double kToleranceOfCpus = 1e-4;
constexpr double kToleranceOfCuda = 5e-2;

// The kernels that a server runs.
struct Kernels {
  const char* name;
  const char* variable;  // of the environment
  const char* value;
  const char* device;
};

// A processor without AVX-512 runs AVX2 twice.
std::array<Kernels, 3> AllKernels() {
  const char* widest = HasAvx512F32() ? "avx512_f32" : "avx2";
  return {{
      {widest, "LONGSTREAM_ISA", widest, "cpu"},
      {"avx2", "LONGSTREAM_ISA", "avx2", "cpu"},
      {"cuda", "LONGSTREAM_SIMT_MACHINE", "memory=16000000", "cuda:0"},
  }};
}

// A backend, and the case of tests/golden that is its model.
struct Case {
  const char* backend;
  const char* golden;
};

// A server with a store that serves the model "m".
class Server {
 public:
  Server(const Case& of, const Kernels& kernels) {
    const fs::path model = directory_.path() / "model";
    const fs::path plugins = directory_.path() / "plugins";
    fs::create_directories(model);
    fs::create_directories(plugins);
    WriteWithVocabulary(std::string(LONGSTREAM_SOURCE_DIR "/tests/golden/") + of.golden,
                        kVocabulary, model);
    const std::string backend = of.backend;
    fs::create_symlink(LONGSTREAM_TEST_PLUGIN_DIR "/simt_" + backend + ".so",
                       plugins / ("simt_" + backend + ".so"));
    fs::create_symlink(LONGSTREAM_BINARY_DIR "/plugins/" + backend + ".cpu.so",
                       plugins / (backend + ".cpu.so"));
    setenv(kernels.variable, kernels.value, 1);
    process_ = std::make_unique<ServerProcess>(
        LONGSTREAM_BINARY_DIR "/bin/longstream-server",
        std::vector<std::string>{
            "--plugins", plugins.string(), "--store", directory_.string() + "/store", "--model",
            "m=" + model.string() +
                ",cache_bytes=2MiB,options.weights=f32,device=" + kernels.device});
    unsetenv(kernels.variable);
    connection_ = std::make_unique<client::Connection>(process_->address());
    connection_->WaitUntilServing("m", std::chrono::minutes(2));
  }

  std::string Open() { return connection_->Open("m").session_id(); }
  Generation Turn(const std::string& session, const std::string& text, uint32_t tokens) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text(text);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stop()->set_ignore_eos(true);
    request.set_max_tokens(tokens);
    request.set_log_probs(true);
    request.set_top_log_probs(kTop);
    return connection_->Generate(request);
  }
  std::string Export(const std::string& session) {
    std::string file;
    connection_->Export(session, false, [&](std::string_view bytes) { file += bytes; });
    return file;
  }
  std::string Import(std::string file) {
    v1::ImportSessionRequest request;
    request.set_session_id(client::RandomId());
    return connection_->Import(request, [&] { return std::exchange(file, ""); }).session_id();
  }
  std::string kernels() { return connection_->Model("m").kernels(); }

 private:
  const TemporaryDirectory directory_;
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<client::Connection> connection_;
};

// At most the standard deviation of the logits: the logits that are not among the top ones count as
// equal to the least of these. (Log-probabilities differ from logits by a constant.)
double LeastDeviation(const v1::TokenLogProb& row) {
  std::vector<double> logits;
  for (const auto& top : row.top()) logits.push_back(top.log_prob());
  logits.resize(kVocabulary, logits.back());
  double mean = 0;
  for (const double logit : logits) mean += logit / kVocabulary;
  double variance = 0;
  for (const double logit : logits) variance += (logit - mean) * (logit - mean) / kVocabulary;
  return std::sqrt(variance);
}

// Both logits of a difference may be off by the tolerance.
double Bound(const v1::TokenLogProb& row, double tolerance) {
  return 2 * tolerance * LeastDeviation(row);
}

void ExpectSameButForTies(const Generation& moved, const Generation& stayed, double tolerance) {
  ASSERT_EQ(moved.token_ids.size(), stayed.token_ids.size());
  for (size_t i = 0; i < stayed.token_ids.size(); ++i) {
    SCOPED_TRACE("token " + std::to_string(i));
    const v1::TokenLogProb& row = stayed.log_probs[i];
    ASSERT_EQ(row.top_size(), static_cast<int>(kTop));
    if (moved.token_ids[i] != stayed.token_ids[i]) {
      EXPECT_LE(row.top(0).log_prob() - row.top(1).log_prob(), Bound(row, tolerance));
      return;  // the texts are different from here on
    }
    EXPECT_NEAR(moved.log_probs[i].log_prob(), row.log_prob(), Bound(row, tolerance));
  }
}

class MovedSessionTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Backends, MovedSessionTest,
                         testing::Values(Case{"dense", "llama_linear"},
                                         Case{"hwfa2", "hwfa2_rerope"},
                                         Case{"hypenet", "hypenet_published_bare"}),
                         [](const auto& test) { return test.param.backend; });

TEST_P(MovedSessionTest, GoesOnOnOtherKernels) {
  const std::array<Kernels, 3> all = AllKernels();
  std::vector<std::unique_ptr<Server>> servers;
  for (const Kernels& kernels : all) {
    servers.push_back(std::make_unique<Server>(GetParam(), kernels));
  }
  // Longer than the windows, and than a page of keys and values.
  const std::string prompt =
      "The old bridge was closed in spring, and the ferry has run ever since, twice an hour.";
  for (size_t from = 0; from < servers.size(); ++from) {
    const std::string session = servers[from]->Open();
    servers[from]->Turn(session, prompt, 8);
    const std::string file = servers[from]->Export(session);
    const Generation stayed = servers[from]->Turn(session, " In winter", 16);
    for (size_t to = 0; to < servers.size(); ++to) {
      if (to == from) continue;
      SCOPED_TRACE(std::string(all[from].name) + " to " + all[to].name);
      const Generation moved = servers[to]->Turn(servers[to]->Import(file), " In winter", 16);
      EXPECT_EQ(moved.started.position(), stayed.started.position());
      EXPECT_EQ(moved.finish.usage().recomputed_tokens(), 0u) << "the caches were not used";
      const bool has_cuda =
          all[from].name == std::string_view("cuda") || all[to].name == std::string_view("cuda");
      const bool same = servers[from]->kernels() == servers[to]->kernels();
      EXPECT_FALSE(same && has_cuda);
      ExpectSameButForTies(moved, stayed,
                           same       ? 0
                           : has_cuda ? kToleranceOfCuda
                                      : kToleranceOfCpus);
    }
  }
}

}  // namespace
}  // namespace longstream
