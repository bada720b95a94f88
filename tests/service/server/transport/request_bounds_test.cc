// A request makes the server hold at most 4 bytes for each byte received, plus 1 MiB. The
// test takes every field of every call from the descriptors, so it covers a new field, and sends
// the encodings that take the most memory for their size. The calls use no connection, so the
// result does not depend on how many pieces a request arrives in.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "service/server/service_impl.h"
#include "service/server/standard/health_service.h"
#include "service/server/standard/reflection_service.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/allocation_counter.h"
#include "tests/service/server/transport/bounded_call.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;

constexpr char kTemplate[] =
    "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}{{ tools }}";

class RequestBoundsTest : public ServerTest {
 protected:
  RequestBoundsTest()
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens,
                   kTemplate),
        service_(&models(), &sessions(), /*max_request_bytes=*/1 << 30),
        health_(&standard_memory_),
        reflection_({"longstream.v1.Longstream"}, &standard_memory_) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&service_);
    builder.RegisterService(&health_);
    builder.RegisterService(&reflection_);
    server_ = builder.BuildAndStart();
    direct_ = server_->InProcessChannel(grpc::ChannelArguments());
  }
  ~RequestBoundsTest() override {
    server_->Shutdown();
    service_.WaitForCalls(MonotonicTime::InfiniteFuture());
  }

  // Fields that make a message of this type valid, so that the server reads the rest.
  std::string ValidFields(const Descriptor& type) const {
    if (type.name() == "Messages") return wire::Bytes(1, ValidFields(*v1::Message::descriptor()));
    if (type.name() == "Message") return wire::Bytes(1, "user");
    if (type.name() == "GenerateRequest") return wire::Bytes(1, session_) + wire::Number(7, 1);
    const FieldDescriptor* id = type.FindFieldByName("session_id");
    return id == nullptr ? "" : wire::Bytes(id->number(), session_);
  }

  // The request of this type in which `fields` is a part of the message of the path's last field.
  std::string RequestWith(const Descriptor& type, const Path& path, std::string fields) const {
    for (size_t i = path.size() - 1; i > 0; --i) {
      const FieldDescriptor& outer = *path[i - 1];
      fields = wire::Bytes(outer.number(), ValidFields(*outer.message_type()) + fields);
    }
    return ValidFields(type) + fields;
  }

  grpc::Status ExpectBounded(const std::string& rpc, const std::string& name,
                             const std::string& request) {
    constexpr int64_t kMostPerByte = 4, kMostOfFormat = 500, kMostOfCompilation = 80 * kMiB;
    int64_t most = kMostPerByte;
    if (name.starts_with(".response_format")) {
      // A format becomes a grammar, on one of the two threads for texts. So two formats at most
      // take so much at a time.
      most = std::clamp(kMostOfCompilation / static_cast<int64_t>(request.size()), kMostPerByte,
                        kMostOfFormat);
    } else if (rpc.ends_with("/Tokenize")) {
      ++most;  // the answer is as long as the request, and this process is the client, too
    }
    return ExpectBoundedCall(direct_, rpc, name, request, most);
  }

  // Makes the calls of one method with every field.
  void TryEveryField(const google::protobuf::MethodDescriptor& method) {
    const std::string rpc = "/" + method.service()->full_name() + "/" + method.name();
    const Descriptor& type = *method.input_type();
    const auto try_request = [&](const std::string& name,
                                 const std::function<std::string()>& make) {
      session_ = Open();
      ExpectBounded(rpc, name, make());
      Close();
    };
    for (const size_t size : kSizes) {
      const int unknown = UnknownNumber(type);
      for (const std::string& part : {wire::Number(unknown, 0), wire::Bytes(unknown, "")}) {
        try_request(" unknown fields", [&] { return ValidFields(type) + RepeatTo(size, part); });
      }
      VisitFields(type, {}, [&](const Path& path) {
        for (const auto& [name, fields] : Encodings(*path.back(), size)) {
          try_request(NameOf(path) + ", " + name, [&] { return RequestWith(type, path, fields); });
        }
      });
    }
  }

  void Close() {
    v1::CloseSessionRequest request;
    request.set_session_id(session_);
    v1::CloseSessionResponse response;
    grpc::ClientContext context;
    stub().CloseSession(&context, request, &response);
  }

  std::string session_;

 private:
  ServiceImpl service_;
  RequestMemory standard_memory_{1 << 30};
  HealthService health_;
  ReflectionService reflection_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> direct_;
};

TEST_F(RequestBoundsTest, EveryFieldOfEveryCall) {
  ExpectAlive();
  const google::protobuf::ServiceDescriptor& service =
      *v1::Session::descriptor()->file()->FindServiceByName("Longstream");
  for (int i = 0; i < service.method_count(); ++i) TryEveryField(*service.method(i));
  ExpectAlive();
}

TEST_F(RequestBoundsTest, EveryFieldOfTheReflectionService) {
  ExpectAlive();
  TryEveryField(*ServerReflectionRequest::descriptor()
                     ->file()
                     ->FindServiceByName("ServerReflection")
                     ->method(0));
  // A longer request is refused. This is about the largest one that is answered.
  const grpc::Status status =
      ExpectBounded("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", " host",
                    wire::Bytes(1, std::string(65500, 'a')) + wire::Bytes(7, ""));
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectAlive();
}

// `Watch` decodes its request as `Check` does, and does not end.
TEST_F(RequestBoundsTest, EveryFieldOfTheHealthService) {
  ExpectAlive();
  TryEveryField(*grpc::health::v1::HealthCheckRequest::descriptor()
                     ->file()
                     ->FindServiceByName("Health")
                     ->FindMethodByName("Check"));
  ExpectAlive();
}

// The server reads all of these messages, so their values and the rendered text count too.
TEST_F(RequestBoundsTest, ManyValidMessages) {
  ExpectAlive();
  const Descriptor& type = *v1::GenerateRequest::descriptor();
  const std::string message = wire::Bytes(1, wire::Bytes(1, "user") + wire::Bytes(2, "hi"));
  int accepted = 0;
  for (const size_t count : {10u, 100u, 500u, 1000u, 1200u, 2000u}) {
    session_ = Open();
    const Path path = {type.FindFieldByName("input"),
                       v1::Input::descriptor()->FindFieldByName("messages"),
                       v1::Messages::descriptor()->FindFieldByName("messages")};
    const std::string request = RequestWith(type, path, wire::Repeat(message, count));
    accepted += ExpectBounded("/longstream.v1.Longstream/Generate", " messages", request).ok();
    Close();
  }
  EXPECT_EQ(accepted, 4) << "1000 short messages must be accepted, 1200 must not";
}

// The counter itself: the test above would pass if it counted nothing.
TEST_F(RequestBoundsTest, TheCounterCounts) {
  const int64_t before = AllocatedBytes();
  ResetPeak();
  {
    const std::vector<std::string> texts(1000, std::string(1000, 'x'));
    EXPECT_GE(AllocatedBytes() - before, kMiB - (48 << 10));
  }
  EXPECT_GE(PeakAllocatedBytes() - before, kMiB - (48 << 10));
  EXPECT_LE(AllocatedBytes() - before, 1 << 10);
}

}  // namespace
}  // namespace longstream
