// The same as every_field_test.cc for the listener of peers: each text of a request of a peer, and
// of a client's request that a peer relays, is in no log, no metric, no file and no error of
// another caller.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "longstream/peer/v1/peer.pb.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/privacy/text_fields.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/free_port.h"
#include "tests/processes/postgres_server.h"
#include "tests/processes/server_process.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

class PeerFieldsTest : public testing::Test {
 protected:
  PeerFieldsTest() {
    setenv("TMPDIR", temporary_.string().c_str(), 1);
    const int port = FreePort();
    const std::string config = temporary_.Write(
        "server.yaml", absl::StrCat("fleet: {replica_id: r, peer_listen: '127.0.0.1:", port,
                                    "', lease_ttl: 2s}\ndrain_timeout: 1s\n"));
    server_ = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--config", config, "--model", minimal_.Flag(), "--store",
                                 postgres_.Url(postgres_.NewDatabase()), "--log-level", "debug"});
    client::Connection(server_->address()).WaitUntilServing("m", std::chrono::seconds(60));
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }
  ~PeerFieldsTest() override { unsetenv("TMPDIR"); }

  // Sets fields without which a call fails before the replica looks at the others. The session does
  // not exist, so it is not given away.
  void SetUsual(Message* message) {
    const std::map<std::string, std::string> texts = {{"sender", "a/1"},
                                                      {"session_id", std::string(32, 'b')},
                                                      {"turn_id", std::string(32, 'c')},
                                                      {"role", "user"}};
    const auto* const reflection = message->GetReflection();
    for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* const field = message->GetDescriptor()->field(i);
      if (field->is_repeated()) continue;
      const auto text = texts.find(field->name());
      if (text != texts.end() && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        reflection->SetString(message, field, text->second);
      } else if (field->name() == "request" &&
                 field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
        reflection->SetUInt64(message, field, ++last_);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
        reflection->SetInt64(message, field, 1);
      } else if (field->name() == "session") {
        SetUsual(reflection->MutableMessage(message, field));
      }
    }
  }
  // The usual request of this type, with `text` at the end of `path`. An empty path: without.
  std::string Request(const Descriptor& type, const Path& path, const std::string& text) {
    const std::unique_ptr<Message> request(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
    SetText(request.get(), path, text, [this](Message* message) { SetUsual(message); });
    return request->SerializeAsString();
  }
  grpc::Status Call(const MethodDescriptor& method, const std::string& request) {
    ++calls_;
    return CallRaw(channel_, "/" + method.service()->full_name() + "/" + method.name(), {request},
                   GRPC_COMPRESS_NONE, {}, std::chrono::minutes(5))
        .status;
  }
  // Another peer calls every method.
  void ExpectOthersLearnNothing(const std::string& after) {
    for (int i = 0; i < service_.method_count(); ++i) {
      const MethodDescriptor& method = *service_.method(i);
      const grpc::Status status = Call(method, Request(*method.input_type(), {}, ""));
      EXPECT_EQ(status.error_message().find(kCanary), std::string::npos)
          << method.name() << " after " << after << ": " << status.error_message();
    }
  }

  const google::protobuf::ServiceDescriptor& service_ =
      *peer::v1::FetchRequest::descriptor()->file()->service(0);
  const TemporaryDirectory temporary_;  // the server's files must not be anywhere else
  const MinimalModelDirectory minimal_;
  PostgresServer postgres_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  uint64_t last_ = 0;  // number of a request
  int calls_ = 0;
};

TEST_F(PeerFieldsTest, ItsTextIsOnlyWhereItBelongs) {
  std::map<std::string, std::string> names;
  const auto next = [&](const std::string& name) {
    const std::string canary = Canary(names.size());
    names[canary] = name;
    return canary;
  };
  for (int i = 0; i < service_.method_count(); ++i) {
    const MethodDescriptor& method = *service_.method(i);
    std::vector<Path> paths;
    AddPaths(*method.input_type(), {}, {}, &paths);
    for (const Path& path : paths) {
      const std::string name = NameOf(method, path);
      Call(method, Request(*method.input_type(), path, next(name)));
    }
    ExpectOthersLearnNothing(method.name());
  }
  const MethodDescriptor& attach = *service_.FindMethodByName("Attach");
  std::vector<Path> paths;
  AddPaths(*v1::GenerateRequest::descriptor(), {}, {}, &paths);
  for (const Path& path : paths) {
    peer::v1::AttachRequest request;
    ASSERT_TRUE(request.ParseFromString(Request(*attach.input_type(), {}, "")));
    request.set_generate_request(
        Request(*v1::GenerateRequest::descriptor(), path, next(NameOf(attach, path))));
    Call(attach, request.SerializeAsString());
  }
  ExpectOthersLearnNothing("relayed requests");
  EXPECT_GT(names.size(), 20u) << "the test finds the fields";

  ExpectNoCanary(Scrape(server_->metrics_port()), "a metric", names);
  EXPECT_EQ(server_->Stop(), 0);
  ExpectNoCanary(server_->Log(), "the log", names);
  ExpectNoFileHasCanary(temporary_.path(), "no path", names);
}

}  // namespace
}  // namespace longstream
