// longstream-server with a CUDA plugin whose kernels the harness executes: the device that a model
// gets, and a few tokens through gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "tests/backends/checkpoint/wide_vocabulary.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{60};
constexpr uint32_t kTokens = 8;

// A server with hypenet's plugins for the CPU and for CUDA, on a machine that
// LONGSTREAM_SIMT_MACHINE describes. It serves a model for each of `devices`, under the device's
// name. (The harness's runtime serves one model at a time.)
class Server {
 public:
  Server(const char* machine, const std::vector<std::string>& devices) {
    setenv("LONGSTREAM_SIMT_MACHINE", machine, 1);
    const fs::path model = directory_.path() / "model";
    const fs::path plugins = directory_.path() / "plugins";
    fs::create_directories(model);
    fs::create_directories(plugins);
    WriteWithVocabulary(LONGSTREAM_SOURCE_DIR "/tests/golden/hypenet_published_bare", 256, model);
    fs::create_symlink(LONGSTREAM_TEST_PLUGIN_DIR "/simt_hypenet.so", plugins / "simt_hypenet.so");
    fs::create_symlink(LONGSTREAM_BINARY_DIR "/plugins/hypenet.cpu.so", plugins / "hypenet.cpu.so");
    std::vector<std::string> arguments = {"--plugins", plugins.string()};
    for (const std::string& device : devices) {
      arguments.insert(arguments.end(),
                       {"--model", device + "=" + model.string() +
                                       ",cache_bytes=2MiB,options.weights=f32,device=" + device});
    }
    process_ = std::make_unique<ServerProcess>(LONGSTREAM_BINARY_DIR "/bin/longstream-server",
                                               std::move(arguments));
    unsetenv("LONGSTREAM_SIMT_MACHINE");
    connection_ = std::make_unique<client::Connection>(process_->address());
  }

  // The model as it is listed after it was loaded or has failed.
  v1::Model Model(const std::string& name) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    v1::Model model = connection_->Model(name);
    while (model.state() == v1::MODEL_STATE_LOADING && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      model = connection_->Model(name);
    }
    return model;
  }

  // Greedy texts of one session with two turns.
  std::vector<std::string> Texts(const std::string& model) {
    const std::string session = connection_->Open(model).session_id();
    std::vector<std::string> texts;
    for (const char* prompt : {"The old bridge", " was closed"}) {
      v1::GenerateRequest request;
      request.set_session_id(session);
      request.mutable_input()->set_text(prompt);
      request.mutable_sampling()->set_temperature(0);
      request.set_max_tokens(kTokens);
      request.mutable_stop()->set_ignore_eos(true);
      const client::Generation generation = connection_->Generate(request);
      EXPECT_EQ(generation.token_ids.size(), kTokens);
      texts.push_back(generation.text);
    }
    return texts;
  }

  int Stop() { return process_->Stop(); }
  std::string Log() const { return process_->Log(); }

 private:
  const TemporaryDirectory directory_;
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<client::Connection> connection_;
};

TEST(PluginServerTest, ServesOnTheDeviceThatIsThere) {
  std::vector<std::string> texts;
  for (const char* device : {"auto", "cuda:0"}) {
    Server server("memory=16000000", {device});
    const v1::Model model = server.Model(device);
    EXPECT_EQ(model.state(), v1::MODEL_STATE_READY) << model.error();
    EXPECT_THAT(model.device(), testing::StartsWith("cuda"));
    texts = server.Texts(device);
    EXPECT_EQ(server.Stop(), 0);
  }
  Server server("driver=0", {"auto", "cuda:0"});
  EXPECT_EQ(server.Model("cuda:0").state(), v1::MODEL_STATE_FAILED);
  EXPECT_EQ(server.Model("cuda:0").error(),
            "model cuda:0: no CUDA device: the NVIDIA driver is not installed; install it, or use "
            "device cpu");
  EXPECT_EQ(server.Model("auto").device(), "cpu");
  EXPECT_EQ(server.Texts("auto"), texts);
  EXPECT_EQ(server.Stop(), 0);
}

TEST(PluginServerTest, OfSeveralDevicesTheFreest) {
  Server server("devices=3,memory=8000000,memory:1=16000000,capability:2=75", {"auto"});
  const v1::Model model = server.Model("auto");
  EXPECT_EQ(model.state(), v1::MODEL_STATE_READY) << model.error();
  EXPECT_THAT(server.Log(), testing::HasSubstr(", ops cuda, device cuda:1"));
}

TEST(PluginServerTest, TheCpuWhereNoDeviceCanBeUsed) {
  Server server("devices=2,capability:0=75,shared:1=101376", {"auto"});
  EXPECT_EQ(server.Model("auto").device(), "cpu");
  EXPECT_THAT(
      server.Log(),
      testing::HasSubstr("model auto: not on cuda: cuda:0: SIMT harness has compute capability "
                         "7.5, expected 8.x or 9.0; cuda:1: SIMT harness has 101376 bytes of "
                         "shared memory for a block, expected at least 166912; use device cpu"));
}

}  // namespace
}  // namespace longstream
