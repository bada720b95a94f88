#include "tests/e2e/hostile/honest_streams.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>

#include "longstream/v1/longstream.grpc.pb.h"

namespace longstream {
namespace {

constexpr uint32_t kTokens = 200;  // of each turn
constexpr char kOwn[] = "600d";    // the beginning of the ids of sessions
// Without a deadline the test would wait for ever for a stuck server.
constexpr std::chrono::seconds kPatience{60};

// `number`: the number of the stream. The second turn goes on after the first without a prompt.
std::vector<v1::GenerateRequest> NewTurns(int number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::vector<v1::GenerateRequest> turns(2);
  std::string prompt;
  for (uint32_t left = 20 + random() % 150; left > 0; --left) {
    prompt += "abcdefgh(): \n_="[random() % 15];
  }
  turns[0].mutable_input()->set_text(prompt);
  for (v1::GenerateRequest& turn : turns) {
    turn.set_max_tokens(kTokens);
    turn.mutable_sampling()->set_temperature(number % 2 == 0 ? 0.0f : 0.9f);
    turn.mutable_sampling()->set_seed(random());
    turn.mutable_stop()->set_ignore_eos(true);
  }
  return turns;
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

std::string Text(const grpc::Status& status) {
  return "status " + std::to_string(status.error_code()) + ": " + status.error_message();
}

}  // namespace

// The connection of one stream.
class HonestStreams::Client {
 public:
  Client(const std::string& address, const client::ChannelSecurity& security) {
    grpc::ChannelArguments arguments;
    // Otherwise all streams would share a connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = client::MakeChannel(address, security, arguments);
    stub_ = v1::Longstream::NewStub(channel_);
  }

  bool Connect() {
    return channel_->WaitForConnected(std::chrono::system_clock::now() + kPatience);
  }

  grpc::Status Open(const std::string& model, const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::OpenSessionRequest request;
    request.set_model(model);
    request.set_session_id(id);
    request.set_durability(v1::DURABILITY_MEMORY);  // a replica has a store
    v1::Session session;
    return stub_->OpenSession(&context, request, &session);
  }

  grpc::Status Close(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::CloseSessionRequest request;
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    return stub_->CloseSession(&context, request, &response);
  }

  // Appends the tokens that arrive to *tokens, and adds their number to *count at once.
  grpc::Status Generate(v1::GenerateRequest request, const std::string& id,
                        std::vector<int32_t>* tokens, std::atomic<uint64_t>* count) {
    grpc::ClientContext context;
    SetDeadline(context);
    request.set_session_id(id);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      const auto& ids = response.delta().token_ids();
      tokens->insert(tokens->end(), ids.begin(), ids.end());
      count->fetch_add(static_cast<uint64_t>(ids.size()));
    }
    return reader->Finish();
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

HonestStreams::HonestStreams(std::string address, client::ChannelSecurity security,
                             const std::vector<std::string>& models, int streams)
    : address_(std::move(address)), security_(std::move(security)) {
  Client client(address_, security_);
  for (int i = 0; i < streams; ++i) {
    Stream& stream = streams_.emplace_back();
    stream.model = models[static_cast<size_t>(i) % models.size()];
    stream.turns = NewTurns(i);
    std::string id = kOwn + std::string(28, '0');
    grpc::Status status = client.Open(stream.model, id);
    for (const v1::GenerateRequest& turn : stream.turns) {
      if (status.ok()) {
        status = client.Generate(turn, id, &stream.tokens.emplace_back(), &tokens_);
      }
    }
    if (status.ok()) status = client.Close(id);
    if (!status.ok()) throw std::runtime_error("a stream that runs alone: " + Text(status));
  }
}

void HonestStreams::Start() {
  stop_ = false;
  // All connections exist before anybody attacks, because the server may refuse new ones then.
  for (const Stream& stream : streams_) {
    auto client = std::make_shared<Client>(address_, security_);
    if (!client->Connect()) Report("no connection");
    threads_.emplace_back([this, &stream, client = std::move(client)] { Run(stream, *client); });
  }
}

void HonestStreams::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool HonestStreams::Owns(const std::string& session) { return session.starts_with(kOwn); }

void HonestStreams::Run(const Stream& stream, Client& client) {
  while (!stop_) {
    const unsigned long long number = ++sessions_;
    char id[33];
    std::snprintf(id, sizeof(id), "%s%028llx", kOwn, number);
    const grpc::Status status = Converse(stream, id, client);
    if (!status.ok()) {
      Report("a call failed, and the stream ends: " + Text(status));
      return;
    }
    conversations_.fetch_add(1);
  }
}

grpc::Status HonestStreams::Converse(const Stream& stream, const std::string& id, Client& client) {
  grpc::Status status = client.Open(stream.model, id);
  for (size_t turn = 0; turn < stream.turns.size() && status.ok(); ++turn) {
    std::vector<int32_t> tokens;
    status = client.Generate(stream.turns[turn], id, &tokens, &tokens_);
    if (status.ok() && tokens != stream.tokens[turn]) {
      Report("a turn gave " + std::to_string(tokens.size()) + " tokens that are not the " +
             std::to_string(stream.tokens[turn].size()) + " tokens that it gives alone");
    }
  }
  return status.ok() ? client.Close(id) : status;
}

void HonestStreams::Report(const std::string& sentence) {
  faults_.fetch_add(1);
  const std::lock_guard<std::mutex> lock(print_);
  std::printf("FAULT: an honest stream: %s\n", sentence.c_str());
}

}  // namespace longstream
