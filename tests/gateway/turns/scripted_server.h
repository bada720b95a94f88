// A server that does what a test says, and tells which calls it got.
#ifndef LONGSTREAM_TESTS_GATEWAY_TURNS_SCRIPTED_SERVER_H_
#define LONGSTREAM_TESTS_GATEWAY_TURNS_SCRIPTED_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gateway/turns/turn_runner.h"
#include "longstream/v1/longstream.grpc.pb.h"

namespace longstream::gateway {

// Writes its calls down, with a letter for each session. Each Generate ends with the next status of
// `turns`; then it succeeds with the text "ok".
class ScriptedServer final : public v1::Longstream::Service {
 public:
  struct Turn {
    grpc::Status status;
    bool starts = false;  // the status comes behind the first message
  };

  std::deque<Turn> turns;
  std::deque<grpc::Status> opens;
  std::deque<grpc::Status> forks;
  std::deque<grpc::Status> appends;
  std::deque<grpc::Status> puts;
  std::deque<grpc::Status> finds;
  std::map<std::string, v1::Note> notes;  // by their keys

  // Of each session after a turn.
  static constexpr uint64_t kPosition = 7;

  std::vector<std::string> TakeCalls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  static grpc::Status Next(std::deque<grpc::Status>* script) {
    if (script->empty()) return grpc::Status::OK;
    const grpc::Status status = script->front();
    script->pop_front();
    return status;
  }
  std::string Name(const std::string& session) {
    const auto [found, inserted] =
        names_.try_emplace(session, 1, static_cast<char>('a' + names_.size()));
    return found->second;
  }
  void Note(const std::string& call) { calls_.push_back(call); }
  template <typename Request>
  static std::string Expected(const Request& request) {
    if (!request.has_expected_position()) return "";
    return " at " + std::to_string(request.expected_position());
  }

  grpc::Status PutNotes(grpc::ServerContext*, const v1::PutNotesRequest* request,
                        v1::PutNotesResponse*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note("note " + Name(request->session_id()));
    const grpc::Status status = Next(&puts);
    if (!status.ok()) return status;
    for (v1::Note note : request->notes()) {
      note.set_session_id(request->session_id());
      notes[note.key()] = note;
    }
    return status;
  }
  grpc::Status FindNotes(grpc::ServerContext*, const v1::FindNotesRequest* request,
                         v1::FindNotesResponse* response) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note("find " + std::to_string(request->keys_size()));
    for (const std::string& key : request->keys()) {
      const auto found = notes.find(key);
      if (found != notes.end()) *response->add_notes() = found->second;
    }
    response->set_keys_looked_for(static_cast<uint32_t>(request->keys_size()));
    return Next(&finds);
  }

  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                           v1::Session*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note("open " + Name(request->session_id()));
    return Next(&opens);
  }
  grpc::Status ForkSession(grpc::ServerContext*, const v1::ForkSessionRequest* request,
                           v1::Session*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string source = Name(request->session_id());
    Note("fork " + source + " to " + Name(request->new_session_id()));
    return Next(&forks);
  }
  grpc::Status Append(grpc::ServerContext*, grpc::ServerReader<v1::AppendRequest>* reader,
                      v1::AppendResponse* response) override {
    v1::AppendRequest request;
    reader->Read(&request);
    const std::lock_guard<std::mutex> lock(mutex_);
    Note("append " + Name(request.session_id()) + Expected(request));
    response->mutable_usage()->set_reused_tokens(5);
    return Next(&appends);
  }
  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note("close " + Name(request->session_id()));
    return grpc::Status::OK;
  }
  grpc::Status CancelTurn(grpc::ServerContext*, const v1::CancelTurnRequest* request,
                          v1::Turn*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note("cancel " + Name(request->session_id()));
    return grpc::Status::OK;
  }
  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    Turn turn;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Note((request->has_input() ? "generate " : "go on ") + Name(request->session_id()) +
           Expected(*request));
      if (!turns.empty()) {
        turn = turns.front();
        turns.pop_front();
      }
    }
    if (!turn.status.ok() && !turn.starts) return turn.status;
    v1::GenerateResponse response;
    response.mutable_started()->set_turn_id(request->turn_id());
    writer->Write(response);
    if (!turn.status.ok()) return turn.status;
    response.mutable_delta()->set_text("ok");
    response.mutable_delta()->add_token_ids(1);
    writer->Write(response);
    response.mutable_finish()->set_reason(v1::FINISH_REASON_STOP_TOKEN);
    response.mutable_finish()->set_position(kPosition);
    writer->Write(response);
    return grpc::Status::OK;
  }

  std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, std::string> names_;
};

// A test with such a server, whose callers are alice or others.
class ScriptedServerTest : public testing::Test {
 protected:
  ScriptedServerTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&script_);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedServerTest() override { server_->Shutdown(); }

  std::unique_ptr<TurnRunner> NewRunner(size_t sessions, bool durable) {
    TurnRunner::Options options;
    options.limits.sessions = sessions;
    options.durable = durable;
    options.resume_timeout = std::chrono::milliseconds(0);
    return std::make_unique<TurnRunner>(
        client::Connection::InProcess(server_->InProcessChannel({})), options);
  }

  static client::Caller Alice() {
    client::Caller caller;
    caller.authorization = "alice";
    return caller;
  }
  static ScriptedServer::Turn Fails(grpc::StatusCode code, bool starts = false) {
    return {grpc::Status(code, "scripted"), starts};
  }

  // The calls that `run` makes. `error`: how it failed; nullptr: it must not fail.
  std::vector<std::string> CallsOf(const std::function<void()>& run, std::string* error) {
    std::string failure;
    try {
      run();
    } catch (const client::CallError& thrown) {
      failure = thrown.code_name();
    }
    if (error == nullptr) {
      EXPECT_EQ(failure, "");
    } else {
      *error = failure;
    }
    return script_.TakeCalls();
  }

  ScriptedServer script_;
  std::unique_ptr<grpc::Server> server_;
  Receipt receipt_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_TESTS_GATEWAY_TURNS_SCRIPTED_SERVER_H_
