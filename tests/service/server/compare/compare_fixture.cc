// Loads the models, and reads streams to their ends.
#include "tests/service/server/compare/compare_fixture.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "absl/time/clock.h"
#include "backends/minimal/toy_model.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

constexpr char kBrackets[] =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}.{% endfor %}"
    "{{ '[assistant]' if add_generation_prompt }}";
constexpr char kColons[] =
    "{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}"
    "{{ 'assistant: ' if add_generation_prompt }}";

}  // namespace

std::vector<v1::CompareToken> Comparison::TokensOf(uint32_t arm) const {
  std::vector<v1::CompareToken> tokens;
  for (const v1::CompareRow& row : rows) {
    for (const v1::CompareToken& token : row.tokens()) {
      if (token.arm() == arm) tokens.push_back(token);
    }
  }
  return tokens;
}

std::vector<int32_t> Comparison::IdsOf(uint32_t arm) const {
  std::vector<int32_t> ids;
  for (const v1::CompareToken& token : TokensOf(arm)) ids.push_back(token.token_id());
  return ids;
}

std::string Comparison::TextOf(uint32_t arm) const {
  std::string text;
  for (const v1::CompareToken& token : TokensOf(arm)) text += token.text();
  return text;
}

std::vector<v1::ComparePair> Comparison::PairsOf(uint32_t arm) const {
  std::vector<v1::ComparePair> pairs;
  for (const v1::CompareRow& row : rows) {
    for (const v1::ComparePair& pair : row.pairs()) {
      if (pair.arm() == arm) pairs.push_back(pair);
    }
  }
  return pairs;
}

SeededModel::SeededModel(int seed) {
  std::ofstream(directory() / "config.json")
      << R"({"model_type": "minimal", "seed": )" << seed << "}";
}

std::vector<ModelSource> CompareTest::Sources() const {
  const auto named = [](ModelSource source, const char* name) {
    source.name = name;
    return source;
  };
  ModelSource small = small_.Source();
  small.backend = "small_vocabulary";
  return {named(plain_.Source(), "a"),
          named(other_.Source(), "b"),
          named(other_.Source(R"({"fail_at_position": 20})"), "fails"),
          named(plain_.Source("{}", 2 * sizeof(toy::State)), "tight"),
          named(words_.Source(), "words"),
          named(chat_.Source(), "chat"),
          named(talk_.Source(), "talk"),
          named(sixteen_.Source(), "sixteen"),
          named(std::move(small), "small")};
}

std::vector<std::shared_ptr<const Plugin>> CompareTest::Plugins() const {
  return {plain_.plugins().front(), small_.plugins().front()};
}

CompareTest::CompareTest(const CompareLimits& limits, uint64_t session_host_bytes,
                         absl::Duration client_timeout, size_t stream_buffer_bytes)
    : words_(MinimalModel::PluginFile(), ByteTokensJson()),
      chat_(MinimalModel::PluginFile(), "", kBrackets),
      talk_(MinimalModel::PluginFile(), "", kColons),
      sixteen_(MinimalModel::PluginFile(), SixteenTokensJson()),
      small_(LONGSTREAM_BINARY_DIR "/test_plugins/small_vocabulary.so", SixteenTokensJson()),
      models_({.plugins = Plugins(),
               .host = plain_.host(),
               .metrics = plain_.registry(),
               .engine = {.stream_buffer_bytes = stream_buffer_bytes,
                          .client_timeout = client_timeout,
                          .executor = pool_.AsExecutor()},
               .session_host_bytes = session_host_bytes},
              Sources(), nullptr),
      sessions_(&models_, {}) {
  EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  auto server =
      GrpcServer::Start({.listen = "127.0.0.1:0", .compare = limits}, &models_, &sessions_);
  if (!server.ok()) throw std::runtime_error(server.status().ToString());
  server_ = *std::move(server);
  stub_ = v1::Longstream::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
}

CompareTest::~CompareTest() {
  sessions_.Drain(absl::ZeroDuration());
  server_->Shutdown(MonotonicTime::Now() + absl::Seconds(5));
}

std::unique_ptr<v1::Longstream::Stub> CompareTest::NarrowStub() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return v1::Longstream::NewStub(
      grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                grpc::InsecureChannelCredentials(), arguments));
}

v1::CompareRequest CompareTest::Request(const std::vector<std::string>& models) {
  v1::CompareRequest request;
  for (const std::string& model : models) request.add_arms()->set_model(model);
  request.mutable_input()->set_text("hello");
  request.set_max_tokens(12);
  request.mutable_sampling()->set_temperature(1.0f);
  request.mutable_sampling()->set_seed(1);
  return request;
}

Comparison CompareTest::Compare(
    const v1::CompareRequest& request,
    const std::function<void(const v1::CompareResponse&, grpc::ClientContext*)>& on_message) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  const auto reader = stub_->Compare(&context, request);
  Comparison comparison;
  v1::CompareResponse response;
  while (reader->Read(&response)) {
    if (response.has_started()) comparison.started = response.started();
    if (response.has_rows()) {
      EXPECT_EQ(response.rows().first_index(), comparison.rows.size());
      for (const v1::CompareRow& row : response.rows().rows()) {
        for (const v1::CompareToken& token : row.tokens()) {
          EXPECT_EQ(comparison.ends.count(token.arm()), 0u) << "a row behind the arm's end";
        }
        comparison.rows.push_back(row);
      }
    }
    if (response.has_arm_end()) {
      EXPECT_EQ(comparison.ends.count(response.arm_end().arm()), 0u);
      comparison.ends[response.arm_end().arm()] = response.arm_end();
    }
    if (response.has_finish()) comparison.finish = response.finish();
    if (on_message) on_message(response, &context);
  }
  comparison.status = reader->Finish();
  return comparison;
}

void CompareTest::ExpectRefused(const v1::CompareRequest& request, grpc::StatusCode code,
                                const std::string& message) {
  const Comparison comparison = Compare(request);
  EXPECT_EQ(comparison.status.error_code(), code) << comparison.status.error_message();
  EXPECT_EQ(comparison.status.error_message(), message);
  EXPECT_TRUE(comparison.rows.empty());
}

std::string CompareTest::Open(const std::string& model) {
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  v1::Session session;
  request.set_model(model);
  const grpc::Status status = stub_->OpenSession(&context, request, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session.session_id();
}

void CompareTest::Append(const v1::AppendRequest& request) {
  grpc::ClientContext context;
  v1::AppendResponse response;
  const auto writer = stub_->Append(&context, &response);
  EXPECT_TRUE(writer->Write(request));
  EXPECT_TRUE(writer->WritesDone());
  const grpc::Status status = writer->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

std::vector<int32_t> CompareTest::Generate(const std::string& model,
                                           const v1::CompareRequest& request) {
  v1::GenerateRequest generate;
  generate.set_session_id(Open(model));
  *generate.mutable_input() = request.input();
  *generate.mutable_sampling() = request.sampling();
  *generate.mutable_stop() = request.stop();
  generate.set_max_tokens(request.max_tokens());
  std::vector<int32_t> tokens;
  {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, generate);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      const auto& ids = response.delta().token_ids();
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  grpc::ClientContext context;
  v1::CloseSessionRequest close;
  v1::CloseSessionResponse closed;
  close.set_session_id(generate.session_id());
  EXPECT_TRUE(stub_->CloseSession(&context, close, &closed).ok());
  return tokens;
}

std::vector<v1::TokenScore> CompareTest::Score(const std::string& model, const std::string& text) {
  grpc::ClientContext context;
  v1::ScoreRequest request;
  request.set_model(model);
  request.mutable_input()->set_text(text);
  request.set_top_log_probs(3);
  const auto reader = stub_->Score(&context, request);
  std::vector<v1::TokenScore> scores;
  v1::ScoreResponse response;
  while (reader->Read(&response)) {
    scores.insert(scores.end(), response.tokens().begin(), response.tokens().end());
  }
  EXPECT_TRUE(reader->Finish().ok());
  return scores;
}

std::vector<std::vector<float>> CompareTest::LogitsOf(const std::string& model,
                                                      const std::string& text) {
  const MinimalModel& files = model == "a" ? plain_ : other_;
  auto served = ServedModel::Load(files.Source(), files.plugins(), files.host());
  EXPECT_TRUE(served.ok()) << served.status();
  BackendModel& backend = (*served)->backend();
  auto sequence = backend.CreateSequence();
  EXPECT_TRUE(sequence.ok() && sequence->Reserve(text.size()).ok());
  const std::vector<int32_t> tokens = Bytes(text);
  ls_batch_entry entry{};
  entry.sequence = sequence->handle();
  entry.tokens = tokens.data();
  entry.num_tokens = static_cast<uint32_t>(tokens.size());
  entry.logit_rows = LS_ROWS_ALL;
  const auto ticket = backend.Submit({&entry, 1});
  EXPECT_TRUE(ticket.ok()) << ticket.status();
  const auto results = backend.Wait(*ticket);
  EXPECT_TRUE(results.ok()) << results.status();
  const ls_result& result = (*results)[0];
  std::vector<std::vector<float>> rows;
  for (uint32_t row = 0; row < result.num_logit_rows; ++row) {
    rows.emplace_back(result.logits + size_t{row} * 256, result.logits + size_t{row + 1} * 256);
  }
  return rows;
}

uint64_t CompareTest::CacheBytes() const {
  uint64_t bytes = 0;
  for (const ModelStatus& status : models_.List()) {
    if (status.engine == nullptr) continue;
    const ls_memory memory = status.engine->model().backend().memory();
    bytes += memory.reserved + memory.pages + memory.rings + memory.states + memory.checkpoints;
  }
  return bytes;
}

void CompareTest::AwaitNoCaches() {
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (CacheBytes() > 0 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(CacheBytes(), 0u);
}

void CompareTest::ExpectNothingHeld() {
  AwaitNoCaches();
  const auto held = [this] { return models_.host_memory()->held_bytes(); };
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (held() > 0 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(held(), 0u);
}

}  // namespace longstream
