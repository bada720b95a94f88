// The metadata x-session-id, by which a proxy sends all calls of a session to one server.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/session.h"

namespace longstream::client {
namespace {

const std::string kId(32, 'a');

// A server that refuses all calls, and notes what their metadata say.
class RefusingServer {
 public:
  RefusingServer() : service_(this) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  const std::string& address() const { return address_; }
  // The sessions of the calls since the last time; "-": the call names none.
  std::vector<std::string> TakeSessions() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(sessions_, {});
  }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    Refusal() { Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "refused")); }
    void OnDone() override { delete this; }
  };
  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(RefusingServer* server) : server_(server) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      server_->Note(*context);
      return new Refusal();
    }

   private:
    RefusingServer* const server_;
  };

  void Note(const grpc::GenericCallbackServerContext& context) {
    const auto found = context.client_metadata().find("x-session-id");
    const std::lock_guard<std::mutex> lock(mutex_);
    sessions_.push_back(found == context.client_metadata().end()
                            ? "-"
                            : std::string(found->second.data(), found->second.size()));
  }

  std::mutex mutex_;
  std::vector<std::string> sessions_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

template <typename Request>
Request About(const std::string& session) {
  Request request;
  request.set_session_id(session);
  return request;
}

class SessionHeaderTest : public testing::Test {
 protected:
  // The session that a call names, which the server refuses.
  std::string SessionOf(const std::function<void()>& call) {
    EXPECT_THROW(call(), CallError);
    const std::vector<std::string> sessions = server_.TakeSessions();
    EXPECT_EQ(sessions.size(), 1u);
    return sessions.empty() ? "" : sessions.front();
  }

  RefusingServer server_;
  Connection connection_{server_.address()};
};

TEST_F(SessionHeaderTest, EachCallAboutASessionNamesIt) {
  const std::vector<std::function<void()>> calls = {
      [&] { connection_.Open("m", kId); },
      [&] { connection_.Get(kId); },
      [&] { connection_.Fork(kId, std::string(32, 'b')); },
      [&] { connection_.RewindToPosition(kId, 1); },
      [&] { connection_.Append(kId, "text"); },
      [&] { connection_.Generate(About<v1::GenerateRequest>(kId)); },
      [&] { connection_.Collect(About<v1::GenerateRequest>(kId)); },
      [&] { connection_.CancelTurn(kId, std::string(32, 'c')); },
      [&] { connection_.Turns(kId); },
      [&] { connection_.Close(kId); },
      [&] { connection_.Export(kId, false, [](std::string_view) {}); },
      [&] { connection_.Import(About<v1::ImportSessionRequest>(kId), [] { return ""; }); },
      [&] { connection_.Compare(About<v1::CompareRequest>(kId), [](const auto&) {}); },
  };
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(SessionOf(calls[i]), kId) << i;
}

TEST_F(SessionHeaderTest, OtherCallsNameNone) {
  EXPECT_EQ(SessionOf([&] { connection_.Models(); }), "-");
  EXPECT_EQ(SessionOf([&] { connection_.Sessions("m"); }), "-");
  EXPECT_EQ(SessionOf([&] { connection_.Score({}); }), "-");
}

TEST_F(SessionHeaderTest, BothSpellingsOfAnIdAreOneSession) {
  EXPECT_EQ(SessionOf([&] { connection_.Get(std::string(32, 'A')); }), kId);
}

TEST_F(SessionHeaderTest, WhatIsNoIdIsLeftToTheServer) {
  for (const std::string& id :
       {std::string(), std::string(31, 'a'), std::string(32, 'g'), std::string(32, '\n')}) {
    EXPECT_EQ(SessionOf([&] { connection_.Get(id); }), "-") << id;
  }
}

TEST_F(SessionHeaderTest, TheProgramsOwnSessionsAreNamedWhenTheyAreOpened) {
  EXPECT_EQ(SessionOf([&] { const Session session(connection_, "m"); }).size(), 32u);
}

}  // namespace
}  // namespace longstream::client
