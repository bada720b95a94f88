// Damaged and incomplete checkpoints, served by a server process. The server must list such a model
// as failed, with a sentence that names the file and the tensor or key, and must serve the other
// models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

// A safetensors file begins with the header's length, 8 little-endian bytes.
constexpr size_t kLengthBytes = 8;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

uint64_t HeaderLength(const std::string& safetensors) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(safetensors.at(i))} << (8 * i);
  }
  return length;
}

void SetHeaderLength(std::string& safetensors, uint64_t length) {
  for (size_t i = 0; i < kLengthBytes; ++i) {
    safetensors.at(i) = static_cast<char>(length >> (8 * i) & 0xff);
  }
}

// The names of the tensors, in the order of their data.
std::vector<std::string> InOrderOfData(const ordered_json& header) {
  std::vector<std::pair<uint64_t, std::string>> tensors;
  for (const auto& [name, tensor] : header.items()) {
    if (name != "__metadata__") tensors.emplace_back(tensor["data_offsets"][0], name);
  }
  std::sort(tensors.begin(), tensors.end());
  std::vector<std::string> names;
  for (auto& [begin, name] : tensors) names.push_back(std::move(name));
  return names;
}

// Lets `change` edit the header and writes the result back. Returns the result of `change`: the
// text that the server's sentence must contain.
std::string EditHeader(std::string& safetensors,
                       const std::function<std::string(ordered_json& header)>& change) {
  const uint64_t length = HeaderLength(safetensors);
  auto header = ordered_json::parse(safetensors.substr(kLengthBytes, length));
  std::string named = change(header);
  const std::string text = header.dump();
  safetensors.replace(kLengthBytes, length, text);
  SetHeaderLength(safetensors, text.size());
  return named;
}

// Each function damages the weights and returns the text that must follow the file's name in the
// server's sentence.
std::string Truncate(std::string& safetensors) {
  safetensors.resize(safetensors.size() - 10);
  return EditHeader(safetensors, [](ordered_json& header) {
    const std::string last = InOrderOfData(header).back();
    return "tensor \"" + last + "\" at bytes [" + header[last]["data_offsets"][0].dump() + ", ";
  });
}

std::string Overlap(std::string& safetensors) {
  return EditHeader(safetensors, [](ordered_json& header) {
    const std::string second = InOrderOfData(header).at(1);
    for (auto& offset : header[second]["data_offsets"]) offset = offset.get<uint64_t>() - 4;
    return "tensor \"" + second + "\" overlaps the tensor before it";
  });
}

std::string ClaimAHugeHeader(std::string& safetensors) {
  SetHeaderLength(safetensors, 200'000'000);
  return "header of 200000000 bytes, expected at most 100000000";
}

std::string ClaimAHeaderLongerThanTheFile(std::string& safetensors) {
  SetHeaderLength(safetensors, 99'000'000);
  return "header of 99000000 bytes, found a file of " + std::to_string(safetensors.size());
}

struct Defect {
  const char* model;                                          // the model's name on the server
  const char* golden;                                         // the golden case to copy
  std::string (*damage)(std::string& safetensors) = nullptr;  // damages the copy's weights
  const char* lost_key = nullptr;  // the key to remove from the copy's config
};

constexpr Defect kDefects[] = {
    {"dense-truncated", "llama", Truncate},
    {"hwfa2-truncated", "hwfa2_rerope", Truncate},
    {"hypenet-truncated", "hypenet_published", Truncate},
    {"dense-overlap", "llama", Overlap},
    {"hwfa2-overlap", "hwfa2_rerope", Overlap},
    {"hypenet-overlap", "hypenet_published", Overlap},
    {"dense-huge-header", "llama", ClaimAHugeHeader},
    {"dense-long-header", "llama", ClaimAHeaderLongerThanTheFile},
    {"dense-lost-key", "llama", nullptr, "num_attention_heads"},
    {"hwfa2-lost-key", "hwfa2_rerope", nullptr, "sliding_window"},
    {"hypenet-lost-key", "hypenet_published", nullptr, "mixer_types"},
};

// A copy of a golden case with one defect.
class DamagedCheckpoint {
 public:
  explicit DamagedCheckpoint(const Defect& defect) {
    const std::filesystem::path golden =
        std::filesystem::path(LONGSTREAM_SOURCE_DIR) / "tests/golden" / defect.golden;
    std::string weights = ReadFile(golden / "model.safetensors");
    auto config = ordered_json::parse(ReadFile(golden / "config.json"));
    if (defect.damage != nullptr) {
      sentence_ = Path("model.safetensors") + ": " + defect.damage(weights);
    } else {
      EXPECT_EQ(config.erase(defect.lost_key), 1u) << defect.model;
      sentence_ = Path("config.json") + ": " + defect.lost_key + " is missing, expected ";
    }
    directory_.Write("model.safetensors", weights);
    directory_.Write("config.json", config.dump());
  }

  std::string directory() const { return directory_.string(); }
  // The text that the failure reason must contain.
  const std::string& sentence() const { return sentence_; }

 private:
  std::string Path(const char* file) const { return (directory_.path() / file).string(); }

  const TemporaryDirectory directory_;
  std::string sentence_;
};

// Waits until the server has loaded the model or failed to. Returns the model as the server lists
// it then.
v1::Model Loaded(client::Connection& connection, const std::string& name) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  v1::Model model = connection.Model(name);
  while (model.state() == v1::MODEL_STATE_LOADING && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    model = connection.Model(name);
  }
  return model;
}

// Expects the error of calls on the model, which names the model once.
void ExpectUnavailable(const std::function<void()>& call, const v1::Model& failed) {
  const std::string listed = "model " + failed.name() + ": ";
  ASSERT_EQ(failed.error().find(listed), 0u) << failed.error();
  try {
    call();
    ADD_FAILURE() << "a call succeeded on a model that failed to load";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(error.status().error_message(), "model " + failed.name() + " could not be loaded: " +
                                                  failed.error().substr(listed.size()));
  }
}

// The test asks for GPU 7. It passes on machines with fewer GPUs and in builds without a CUDA
// plugin.
TEST(MissingDeviceTest, IsTheReasonOfItsModelAndTheOthersServe) {
  const std::string directory = LONGSTREAM_SOURCE_DIR "/models/demo/dense";
  ServerProcess server(kServerBinary, {"--model", "gpu=" + directory + ",device=cuda:7", "--model",
                                       "cpu=" + directory + ",device=cpu"});
  client::Connection connection(server.address());
  connection.WaitUntilServing("cpu", std::chrono::seconds(60));
  const v1::Model failed = Loaded(connection, "gpu");
  EXPECT_EQ(failed.state(), v1::MODEL_STATE_FAILED);
  EXPECT_THAT(failed.error(), testing::AnyOf(HasSubstr("no CUDA device: "),
                                             HasSubstr("there is no device 'cuda:7' here"),
                                             HasSubstr("no plugin was found for 'cuda:7'")));
  ExpectUnavailable([&] { connection.Open("gpu"); }, failed);
  EXPECT_EQ(connection.Model("cpu").device(), "cpu");
}

// A path or a file may contain bytes that are not UTF-8, but a gRPC string must be UTF-8. Such a
// model must not keep the server from listing the others.
TEST(DamagedCheckpointTest, BytesThatAreNoTextDoNotKeepModelsFromBeingListed) {
  const TemporaryDirectory root;
  const std::string config = R"({"model_type": "minimal"})";
  for (const char* name : {"good", "bytes", "\xff\xfe"}) {
    std::filesystem::create_directory(root.path() / name);
    std::ofstream(root.path() / name / "config.json") << config;
  }
  std::ofstream(root.path() / "bytes" / "tokenizer.json") << "\xff\xfe\x80";
  std::ofstream(root.path() / "\xff\xfe" / "generation_config.json") << "{";
  ServerProcess server(kServerBinary, {"--model", "good=" + root.string() + "/good", "--model",
                                       "bytes=" + root.string() + "/bytes", "--model",
                                       "path=" + root.string() + "/\xff\xfe"});
  client::Connection connection(server.address());
  connection.WaitUntilServing("good", std::chrono::seconds(60));
  EXPECT_THAT(Loaded(connection, "bytes").error(), HasSubstr("/bytes/tokenizer.json: not JSON: "));
  EXPECT_THAT(
      Loaded(connection, "path").error(),
      HasSubstr("/\xEF\xBF\xBD\xEF\xBF\xBD/generation_config.json: expected a JSON object"));
  EXPECT_EQ(connection.Models().size(), 3u);
  EXPECT_EQ(connection.Model("good").state(), v1::MODEL_STATE_READY);
}

TEST(DamagedCheckpointTest, AreListedWithTheirReasonsAndTheOtherServes) {
  const MinimalModelDirectory minimal;
  std::vector<std::string> arguments = {"--model", minimal.Flag()};
  const std::vector<DamagedCheckpoint> checkpoints(std::begin(kDefects), std::end(kDefects));
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    arguments.insert(arguments.end(), {"--model", std::string(kDefects[i].model) + "=" +
                                                      checkpoints[i].directory()});
  }
  ServerProcess server(kServerBinary, arguments);
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", std::chrono::seconds(60));
  EXPECT_EQ(connection.Models().size(), checkpoints.size() + 1);

  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const std::string name = kDefects[i].model;
    SCOPED_TRACE(name);
    const v1::Model failed = Loaded(connection, name);
    EXPECT_EQ(failed.state(), v1::MODEL_STATE_FAILED);
    EXPECT_THAT(failed.error(), HasSubstr(checkpoints[i].sentence()));
    ExpectUnavailable([&] { connection.Open(name); }, failed);
    v1::ScoreRequest score;
    score.set_model(name);
    score.mutable_input()->set_text("abc");
    ExpectUnavailable([&] { connection.Score(score); }, failed);
  }

  v1::GenerateRequest request;
  request.set_session_id(connection.Open("m").session_id());
  request.mutable_input()->set_text("abc");
  request.set_max_tokens(5);
  request.mutable_stop()->set_ignore_eos(true);
  EXPECT_EQ(connection.Generate(request).tokens(), 5);
  EXPECT_EQ(server.Stop(), 0);
}

}  // namespace
}  // namespace longstream
