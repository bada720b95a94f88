// A program that loads, swaps and unloads the demo models of a server while streams run. It shows
// whether any call fails or any token differs, and whether the server's memory comes back.
#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "client/admin_connection.h"
#include "client/connection.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ModelChurn {
 public:
  ModelChurn(const std::string& binary, const std::string& models)
      : server_(binary,
                {"--config",
                 directory_.Write("server.yaml", "admin:\n  listen: unix:" + Socket() +
                                                     "\n  model_directories: [" + models + "]\n")}),
        admin_("unix:" + Socket(), {}) {}

  // Swaps the model `swaps` times while the streams run. Returns the number of faults.
  int Swap(int streams, int swaps) {
    Load("live", "dense");
    const std::vector<int32_t> expected = Turn("live").token_ids;
    std::atomic<bool> stop{false};
    std::atomic<int> turns{0}, faults{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < streams; ++i) {
      clients.emplace_back([&] {
        while (!stop) {
          try {
            if (Turn("live").token_ids != expected) ++faults;
          } catch (const client::CallError& error) {
            std::printf("FAULT: %s\n", error.what());
            ++faults;
          }
          ++turns;
        }
      });
    }
    for (int i = 0; i < swaps; ++i) {
      const int before = turns;
      while (turns < before + 2 * streams) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      admin::v1::SwapModelRequest request;
      request.mutable_model()->set_name("live");
      request.mutable_model()->set_directory("dense");
      admin_.Swap(request, [](const admin::v1::Model&) {});
    }
    stop = true;
    for (std::thread& client : clients) client.join();
    std::printf("%d streams, %d swaps, %d turns: %d faults\n", streams, swaps, turns.load(),
                faults.load());
    Unload("live");
    return faults;
  }

  // Loads and unloads each model in turn. Returns the number of faults.
  int Cycle(int cycles) {
    const std::vector<std::string> models = {"dense", "hwfa2", "hypenet"};
    uint64_t after_two = 0, last = 0;
    for (int i = 0; i < cycles; ++i) {
      for (const std::string& model : models) {
        Load("cycle", model);
        Turn("cycle");
        Unload("cycle");
      }
      last = server_.resident_bytes();
      if (i == 1) after_two = last;
      std::printf("cycle %2d: %7.1f MiB resident\n", i + 1,
                  static_cast<double>(last) / static_cast<double>(kMiB));
    }
    const bool grows = last > after_two + 16 * kMiB;
    std::printf(
        "%s: %.1f MiB more than after two cycles\n", grows ? "FAULT" : "ok",
        (static_cast<double>(last) - static_cast<double>(after_two)) / static_cast<double>(kMiB));
    return grows ? 1 : 0;
  }

 private:
  std::string Socket() const { return directory_.string() + "/admin.sock"; }

  void Load(const std::string& name, const std::string& directory) {
    admin::v1::LoadModelRequest request;
    request.mutable_model()->set_name(name);
    request.mutable_model()->set_directory(directory);
    admin_.Load(request, [](const admin::v1::Model&) {});
  }
  void Unload(const std::string& name) {
    admin::v1::UnloadModelRequest request;
    request.set_name(name);
    admin_.Unload(request);
  }
  client::Generation Turn(const std::string& model) {
    client::Connection connection(server_.address());
    v1::GenerateRequest request;
    request.set_session_id(connection.Open(model).session_id());
    request.mutable_input()->set_text("def add(a, b):\n    return");
    request.set_max_tokens(64);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_seed(7);
    client::Generation generation = connection.Generate(request);
    connection.Close(request.session_id());
    return generation;
  }

  const TemporaryDirectory directory_;
  ServerProcess server_;
  client::AdminConnection admin_;
};

int Run(int argc, char** argv) {
  CLI::App app("Loads, swaps and unloads models while streams run.");
  std::string binary, models;
  int streams = 64, swaps = 5, cycles = 20;
  app.add_option("binary", binary, "longstream-server")->required();
  app.add_option("models", models, "the directory with dense, hwfa2 and hypenet")->required();
  app.add_option("--streams", streams);
  app.add_option("--swaps", swaps);
  app.add_option("--cycles", cycles);
  CLI11_PARSE(app, argc, argv);
  ModelChurn churn(binary, models);
  return churn.Swap(streams, swaps) + churn.Cycle(cycles) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  try {
    return longstream::Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_churn: %s\n", error.what());
    return 1;
  }
}
