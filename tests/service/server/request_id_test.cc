// The id of a call: which texts of a client count, and where the id appears.
#include "service/interceptors/request_id.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

TEST(RequestId, WhichTextsCount) {
  const std::pair<std::string, bool> cases[] = {
      {"a", true},
      {"7f3c-01/B:x~!", true},
      {std::string(128, 'x'), true},
      {"", false},
      {std::string(129, 'x'), false},
      {"two words", false},
      {"line\nend", false},
      {"tab\t", false},
      {std::string(1, '\0'), false},
      {"\x7f", false},
      {"caf\xc3\xa9", false},
  };
  for (const auto& [text, counts] : cases) EXPECT_EQ(IsRequestId(text), counts) << text;
}

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The ids in the metadata, separated by commas.
std::string IdsIn(const Metadata& metadata) {
  std::string ids;
  const auto [begin, end] = metadata.equal_range(kRequestIdKey);
  for (auto it = begin; it != end; ++it) {
    ids += (ids.empty() ? "" : ",") + std::string(it->second.data(), it->second.size());
  }
  return ids;
}

bool IsDrawn(const std::string& id) {
  return id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct RequestIds {
  grpc::StatusCode code;
  std::string initial;
  std::string trailing;
};

class RequestIdTest : public ServerTest {
 protected:
  // Calls GetSession with this id in the metadata; nullptr: with none.
  RequestIds Get(const char* id, const std::string& session) {
    grpc::ClientContext context;
    if (id != nullptr) context.AddMetadata(kRequestIdKey, id);
    v1::GetSessionRequest request;
    request.set_session_id(session);
    v1::Session response;
    const grpc::Status status = stub().GetSession(&context, request, &response);
    return {status.error_code(), IdsIn(context.GetServerInitialMetadata()),
            IdsIn(context.GetServerTrailingMetadata())};
  }
};

TEST_F(RequestIdTest, ComesBack) {
  const std::string session = Open();
  RequestIds ids = Get("my-id", session);
  EXPECT_EQ(ids.code, grpc::StatusCode::OK);
  EXPECT_EQ(ids.initial, "my-id");
  EXPECT_EQ(ids.trailing, "") << "only errors repeat it";
  ids = Get("my-id", std::string(32, 'f'));
  EXPECT_EQ(ids.code, grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ids.initial, "my-id");
  EXPECT_EQ(ids.trailing, "my-id");
  ids = Get("my-id", "no id");
  EXPECT_EQ(ids.code, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ids.trailing, "my-id");
}

TEST_F(RequestIdTest, IsDrawnIfTheClientsIsNoId) {
  const std::string session = Open();
  std::string before;
  for (const char* id : {static_cast<const char*>(nullptr), "two words", ""}) {
    const std::string drawn = Get(id, session).initial;
    EXPECT_TRUE(IsDrawn(drawn)) << drawn;
    EXPECT_NE(drawn, before);
    before = drawn;
  }
  EXPECT_TRUE(IsDrawn(Get(std::string(129, 'x').c_str(), session).initial));
}

TEST_F(RequestIdTest, OfStreams) {
  const std::string session = Open();
  for (const bool good : {true, false}) {
    grpc::ClientContext context;
    context.AddMetadata(kRequestIdKey, "stream");
    v1::GenerateRequest request = Request(session);
    if (!good) request.set_top_log_probs(21);
    const auto reader = stub().Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().ok(), good);
    EXPECT_EQ(IdsIn(context.GetServerInitialMetadata()), "stream");
    EXPECT_EQ(IdsIn(context.GetServerTrailingMetadata()), good ? "" : "stream");
  }
  grpc::ClientContext context;
  context.AddMetadata(kRequestIdKey, "append");
  v1::AppendResponse response;
  const auto writer = stub().Append(&context, &response);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(IdsIn(context.GetServerTrailingMetadata()), "append");
}

TEST_F(RequestIdTest, TheListenerIsToldHowCallsEnd) {
  using End = std::tuple<std::string, std::string, absl::Status>;
  std::mutex mutex;
  std::vector<End> ends;
  auto own = GrpcServer::Start(
      {.listen = "127.0.0.1:0",
       .on_call_end =
           [&](std::string_view id, std::string_view method, const absl::Status& status) {
             const std::lock_guard<std::mutex> lock(mutex);
             ends.emplace_back(id, method, status);
           }},
      &models(), &sessions());
  ASSERT_TRUE(own.ok()) << own.status();
  const auto own_stub = v1::Longstream::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string((*own)->port()), grpc::InsecureChannelCredentials()));
  const std::string there = Open();
  const std::string missing(32, 'f');
  for (const std::string& session : {there, missing}) {
    grpc::ClientContext context;
    context.AddMetadata(kRequestIdKey, session);
    v1::GetSessionRequest request;
    request.set_session_id(session);
    v1::Session response;
    own_stub->GetSession(&context, request, &response);
  }
  (*own)->Shutdown(MonotonicTime::Now());
  const std::string method = "/longstream.v1.Longstream/GetSession";
  EXPECT_EQ(ends,
            (std::vector<End>{
                End(there, method, absl::OkStatus()),
                End(missing, method, absl::NotFoundError("session_id: no session " + missing))}));
}

}  // namespace
}  // namespace longstream
