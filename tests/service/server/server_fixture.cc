// Starts the server and makes the calls that most tests need.
#include "tests/service/server/server_fixture.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "absl/time/clock.h"
#include "service/tokenizer/text/byte_alphabet.h"

namespace longstream {

namespace {

ModelSource WithBatch(ModelSource source, uint32_t max_batch_tokens) {
  source.max_batch_tokens = max_batch_tokens;
  return source;
}

}  // namespace

std::string ByteTokensJson() {
  nlohmann::json json = nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "added_tokens": [],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                      "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "!", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"!": {"id": "!", "ids": [33], "tokens": ["!"]}}},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null,
              "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": false, "ignore_merges": false, "vocab": {}, "merges": []}
  })");
  for (int byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"][ByteToAlphabet(static_cast<unsigned char>(byte))] = byte;
  }
  return json.dump();
}

std::string SixteenTokensJson() {
  nlohmann::json json = nlohmann::json::parse(ByteTokensJson());
  for (const char* part : {"post_processor", "pre_tokenizer"}) json[part] = nullptr;
  json["decoder"] = {{"type", "Fuse"}};
  json["model"]["unk_token"] = "a";
  nlohmann::json vocabulary;
  for (int id = 0; id < 16; ++id) vocabulary[std::string(1, static_cast<char>('a' + id))] = id;
  json["model"]["vocab"] = vocabulary;
  return json.dump();
}

ServerTest::ServerTest(const std::string& options_json, uint64_t cache_bytes,
                       const std::string& plugin, const std::string& tokenizer_json,
                       uint32_t max_batch_tokens, const std::string& chat_template,
                       uint64_t session_host_bytes, const SessionManager::Options& session_options,
                       uint64_t conversation_bytes, const std::vector<TenantConfig>& tenants)
    : model_(plugin, tokenizer_json, chat_template),
      models_({.plugins = model_.plugins(),
               .host = model_.host(),
               .metrics = model_.registry(),
               .engine = {.executor = pool_.AsExecutor()},
               .session_host_bytes = session_host_bytes,
               .conversation_bytes = conversation_bytes,
               .tenants = tenants},
              {WithBatch(model_.Source(options_json, cache_bytes), max_batch_tokens)}, nullptr),
      sessions_(&models_, session_options) {
  EXPECT_TRUE(models_.WaitUntilLoaded().ok());
  auto server = GrpcServer::Start({.listen = "127.0.0.1:0"}, &models_, &sessions_);
  if (!server.ok()) throw std::runtime_error(server.status().ToString());
  server_ = *std::move(server);
  server_->SetModelServing("m", true);
  channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                 grpc::InsecureChannelCredentials());
  stub_ = v1::Longstream::NewStub(channel_);
}

ServerTest::~ServerTest() {
  sessions_.Drain(absl::ZeroDuration());
  server_->Shutdown(MonotonicTime::Now() + absl::Seconds(5));
}

std::string ServerTest::Open() {
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  v1::Session session;
  request.set_model("m");
  const grpc::Status status = stub_->OpenSession(&context, request, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session.session_id();
}

void ServerTest::Close(const std::string& id) {
  grpc::ClientContext context;
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  request.set_session_id(id);
  const grpc::Status status = stub_->CloseSession(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

v1::Session ServerTest::Get(const std::string& id) {
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  const grpc::Status status = stub_->GetSession(&context, request, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session;
}

void ServerTest::WaitUntilIdle(const std::string& id) {
  const absl::Time give_up = absl::Now() + absl::Seconds(10);
  bool is_running = Get(id).turn_running();
  while (is_running && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(5));
    is_running = Get(id).turn_running();
  }
  EXPECT_FALSE(is_running);
}

v1::GenerateRequest ServerTest::Request(const std::string& id) const {
  v1::GenerateRequest request;
  request.set_session_id(id);
  request.mutable_input()->set_text("hello");
  request.set_max_tokens(10);
  request.mutable_sampling()->set_temperature(1.0f);
  request.mutable_sampling()->set_seed(1);
  return request;
}

Generated ServerTest::Generate(
    const v1::GenerateRequest& request,
    const std::function<void(const v1::GenerateResponse&, grpc::ClientContext*)>& on_message,
    std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  const auto reader = stub_->Generate(&context, request);
  Generated generated;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_started()) generated.started = response.started();
    if (response.has_finish()) generated.finish = response.finish();
    if (response.has_delta()) {
      generated.text += response.delta().text();
      generated.tokens.insert(generated.tokens.end(), response.delta().token_ids().begin(),
                              response.delta().token_ids().end());
      generated.deltas.push_back(response.delta());
    }
    if (on_message) on_message(response, &context);
  }
  generated.status = reader->Finish();
  return generated;
}

void ServerTest::ExpectAlive() {
  const Generated generated = Generate(Request(Open()));
  EXPECT_TRUE(generated.status.ok()) << generated.status.error_message();
  EXPECT_EQ(generated.tokens.size(), 10u);
}

}  // namespace longstream
