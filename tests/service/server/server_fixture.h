// A server on a loopback port with a minimal model "m", and a client stub for it.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_SERVER_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_SERVER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/server/grpc_server.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {

// A tokenizer.json with one token per byte, whose id is the byte. The tokenizer puts the token of
// "!" before the first text of a session.
std::string ByteTokensJson();
// A tokenizer with the tokens "a" ... "p", ids 0 ... 15.
std::string SixteenTokensJson();

// The results of a Generate call.
struct Generated {
  grpc::Status status;
  std::string text;
  std::vector<int32_t> tokens;
  v1::TurnStarted started;
  v1::Finish finish;
  std::vector<v1::Delta> deltas;
};

class ServerTest : public testing::Test {
 protected:
  explicit ServerTest(const std::string& options_json = "{}", uint64_t cache_bytes = 0,
                      const std::string& plugin = MinimalModel::PluginFile(),
                      const std::string& tokenizer_json = "",
                      uint32_t max_batch_tokens = ModelSource().max_batch_tokens,
                      const std::string& chat_template = "", uint64_t session_host_bytes = 0,
                      const SessionManager::Options& session_options = {},
                      uint64_t conversation_bytes = 0,
                      const std::vector<TenantConfig>& tenants = {});
  ~ServerTest() override;

  v1::Longstream::Stub& stub() { return *stub_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  GrpcServer& server() { return *server_; }
  SessionManager& sessions() { return sessions_; }
  const MinimalModel& model() const { return model_; }
  const ModelRegistry& models() const { return models_; }

  // Opens a session and returns its id.
  std::string Open();
  void Close(const std::string& id);
  v1::Session Get(const std::string& id);
  // Waits until no turn of the session runs. The server learns of a cancel a little later than the
  // client.
  void WaitUntilIdle(const std::string& id);

  // A request for 10 tokens after "hello", with seed 1.
  v1::GenerateRequest Request(const std::string& id) const;
  // Runs a Generate call. `on_message` is called for each message and may cancel the call through
  // the context.
  Generated Generate(
      const v1::GenerateRequest& request,
      const std::function<void(const v1::GenerateResponse&, grpc::ClientContext*)>& on_message = {},
      std::chrono::milliseconds timeout = std::chrono::seconds(60));

  // Checks that the server still answers. Every test of bad input calls it at its end.
  void ExpectAlive();

 private:
  MinimalModel model_;
  ThreadPool pool_{3};  // its threads write messages
  ModelRegistry models_;
  SessionManager sessions_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_SERVER_FIXTURE_H_
