#include "tests/e2e/soak_caller.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace longstream {
namespace {

using std::chrono::milliseconds;

// The deadline of calls that are not kDeadline. Without a deadline the soak would wait for ever for
// a stuck server.
constexpr auto kPatience = milliseconds(300000);
// This is more than 16 KiB, because the server tokenizes texts of more than 16 KiB on separate
// threads.
constexpr size_t kMaxPiece = 20000;

void SetDeadline(grpc::ClientContext& context, Behaviour behaviour, std::mt19937& random) {
  const auto patience =
      behaviour == Behaviour::kDeadline ? milliseconds(1 + random() % 200) : kPatience;
  context.set_deadline(std::chrono::system_clock::now() + patience);
}

// Decides what a client does after each message: nothing, sleep, or cancel after some messages.
class Temper {
 public:
  Temper(grpc::ClientContext& context, Behaviour behaviour, std::mt19937& random)
      : context_(context),
        behaviour_(behaviour),
        pause_(random() % 30),
        messages_left_(random() % 40) {}

  void AfterMessage() {
    if (behaviour_ == Behaviour::kSlow) std::this_thread::sleep_for(pause_);
    if (behaviour_ == Behaviour::kCancel && messages_left_-- == 0) context_.TryCancel();
  }

 private:
  grpc::ClientContext& context_;
  Behaviour behaviour_;
  milliseconds pause_;
  uint32_t messages_left_;
};

}  // namespace

SoakCaller::SoakCaller(const std::string& address)
    : stub_(v1::Longstream::NewStub(
          grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {}

grpc::Status SoakCaller::Append(const std::string& session, uint64_t position,
                                const std::string& text, Behaviour behaviour,
                                std::mt19937& random) {
  grpc::ClientContext context;
  SetDeadline(context, behaviour, random);
  Temper temper(context, behaviour, random);
  v1::AppendResponse response;
  const auto writer = stub_->Append(&context, &response);
  v1::AppendRequest request;
  request.set_session_id(session);
  request.set_expected_position(position);
  for (size_t begin = 0; begin < text.size();) {
    // One message of four has up to 20000 bytes. The other messages have at most 400 bytes.
    const size_t longest = random() % 4 == 0 ? kMaxPiece : 1 + random() % 400;
    const size_t length = std::min(longest, text.size() - begin);
    request.mutable_input()->set_text(text.substr(begin, length));
    if (!writer->Write(request)) break;
    begin += length;
    request.Clear();
    temper.AfterMessage();
  }
  writer->WritesDone();
  // A client that has not cancelled yet cancels here, before the answer.
  if (behaviour == Behaviour::kCancel) context.TryCancel();
  return writer->Finish();
}

grpc::Status SoakCaller::Generate(const v1::GenerateRequest& request, Behaviour behaviour,
                                  std::mt19937& random, std::vector<int32_t>* tokens) {
  grpc::ClientContext context;
  SetDeadline(context, behaviour, random);
  Temper temper(context, behaviour, random);
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    const v1::Delta& delta = response.delta();
    tokens->insert(tokens->end(), delta.token_ids().begin(), delta.token_ids().end());
    temper.AfterMessage();
  }
  return reader->Finish();
}

grpc::Status SoakCaller::Fork(const std::string& parent, Behaviour behaviour, std::mt19937& random,
                              std::string* session) {
  grpc::ClientContext context;
  SetDeadline(context, behaviour, random);
  v1::ForkSessionRequest request;
  request.set_session_id(parent);
  v1::Session fork;
  const grpc::Status status = stub_->ForkSession(&context, request, &fork);
  *session = fork.session_id();
  return status;
}

grpc::Status SoakCaller::Score(const std::string& model, const std::string& text,
                               Behaviour behaviour, std::mt19937& random, double* sum) {
  grpc::ClientContext context;
  SetDeadline(context, behaviour, random);
  Temper temper(context, behaviour, random);
  v1::ScoreRequest request;
  request.set_model(model);
  request.mutable_input()->set_text(text);
  const auto reader = stub_->Score(&context, request);
  v1::ScoreResponse response;
  while (reader->Read(&response)) {
    if (response.has_summary()) *sum = response.summary().sum_log_prob();
    temper.AfterMessage();
  }
  return reader->Finish();
}

}  // namespace longstream
