// A server with several small models, and calls of Compare on it.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_COMPARE_COMPARE_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_COMPARE_COMPARE_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kernels/core/thread_pool.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/server/grpc_server.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {

// The messages of a Compare call.
struct Comparison {
  grpc::Status status;
  v1::CompareStarted started;
  std::vector<v1::CompareRow> rows;
  std::map<uint32_t, v1::CompareArmEnd> ends;
  v1::CompareFinish finish;

  // The tokens of one arm, in order.
  std::vector<v1::CompareToken> TokensOf(uint32_t arm) const;
  std::vector<int32_t> IdsOf(uint32_t arm) const;
  std::string TextOf(uint32_t arm) const;
  // Its comparisons with the baseline, one for each row from the first on.
  std::vector<v1::ComparePair> PairsOf(uint32_t arm) const;
};

// The minimal model with other weights.
class SeededModel : public MinimalModel {
 public:
  explicit SeededModel(int seed);
};

// Serves models of the minimal backend: `a` and `b` have different weights; `fails` has those of
// `b`, and fails when it reads the token at kFailsAt; `tight` has those of `a`, and memory for one
// session; `words` has another tokenizer; `chat` and `talk` have different chat templates;
// `sixteen` and `small` have the same tokenizer with 16 tokens, and `small` has logits for these
// only.
class CompareTest : public testing::Test {
 protected:
  static constexpr uint64_t kFailsAt = 20;

  // `stream_buffer_bytes`: a turn pauses if its reader is further behind.
  explicit CompareTest(const CompareLimits& limits = {}, uint64_t session_host_bytes = 0,
                       absl::Duration client_timeout = absl::Minutes(5),
                       size_t stream_buffer_bytes = 65536);
  ~CompareTest() override;

  v1::Longstream::Stub& stub() { return *stub_; }
  // Of a client that takes only 1 KiB before it reads.
  std::unique_ptr<v1::Longstream::Stub> NarrowStub() const;
  const ModelRegistry& models() const { return models_; }
  SessionManager& sessions() { return sessions_; }

  // A request for arms with these models, on the prompt "hello", for 12 tokens with seed 1.
  static v1::CompareRequest Request(const std::vector<std::string>& models);
  // `on_message` is called for each message and may cancel the call through the context.
  Comparison Compare(
      const v1::CompareRequest& request,
      const std::function<void(const v1::CompareResponse&, grpc::ClientContext*)>& on_message = {});
  void ExpectRefused(const v1::CompareRequest& request, grpc::StatusCode code,
                     const std::string& message);

  std::string Open(const std::string& model);
  void Append(const v1::AppendRequest& request);
  // Runs a turn in a new session on the request's prompt; returns its tokens.
  std::vector<int32_t> Generate(const std::string& model, const v1::CompareRequest& request);
  std::vector<v1::TokenScore> Score(const std::string& model, const std::string& text);
  // The raw logits after each token of the text, from the plugin itself: [tokens, 256].
  std::vector<std::vector<float>> LogitsOf(const std::string& model, const std::string& text);

  // Waits until no model holds memory for sessions. Fails after a minute.
  void AwaitNoCaches();
  // The same, and until nothing is held in the host's memory.
  void ExpectNothingHeld();

 private:
  std::vector<ModelSource> Sources() const;
  std::vector<std::shared_ptr<const Plugin>> Plugins() const;
  uint64_t CacheBytes() const;  // of all models

  MinimalModel plain_;
  SeededModel other_{2};
  MinimalModel words_;
  MinimalModel chat_;
  MinimalModel talk_;
  MinimalModel sixteen_;
  MinimalModel small_;
  ThreadPool pool_{3};
  ModelRegistry models_;
  SessionManager sessions_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_COMPARE_COMPARE_FIXTURE_H_
