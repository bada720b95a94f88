// A request makes the server hold at most 4 bytes for each byte received, plus 1 MiB. The
// test takes every field of every call from the descriptors, so it covers a new field, and sends
// the encodings that take the most memory for their size. The calls use no connection, so the
// result does not depend on how many pieces a request arrives in.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

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
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;

constexpr size_t kSizes[] = {4 << 10, 16 << 10, 256 << 10, 2 << 20};
constexpr int64_t kMiB = 1 << 20;

constexpr char kTemplate[] =
    "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}{{ tools }}";

// A field, and the fields that it lies in, from the request on.
using Path = std::vector<const FieldDescriptor*>;

std::string NameOf(const Path& path) {
  std::string name;
  for (const FieldDescriptor* field : path) name += "." + field->name();
  return name;
}

// Calls `visit` for every field of a message and of the messages in it.
void VisitFields(const Descriptor& type, Path path, const std::function<void(const Path&)>& visit) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    path.push_back(field);
    visit(path);
    // A type that holds itself is visited down to a few levels.
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map() &&
        path.size() < 8) {
      VisitFields(*field->message_type(), path, visit);
    }
    path.pop_back();
  }
}

// A field number that the message does not have.
int UnknownNumber(const Descriptor& type) {
  int number = 1;
  while (type.FindFieldByNumber(number) != nullptr) ++number;
  return number;
}

std::string RepeatTo(size_t size, const std::string& part) {
  return wire::Repeat(part, size / part.size() + 1);
}

// JSON texts of about this size, whose values take much memory.
std::vector<std::string> JsonTexts(size_t size) {
  return {"[" + RepeatTo(size, "[],") + "0]",          "[" + RepeatTo(size, "0,") + "0]",
          "[" + RepeatTo(size, R"("",)") + "0]",       "[" + RepeatTo(size, R"({"":0},)") + "0]",
          R"({"a":[)" + RepeatTo(size, "{},") + "0]}", std::string(size, '[')};
}

// Encodings of one field, as parts of its message, of about this size.
std::vector<std::pair<std::string, std::string>> Encodings(const FieldDescriptor& field,
                                                           size_t size) {
  const int number = field.number();
  const std::string empty = wire::Bytes(number, "");
  std::vector<std::pair<std::string, std::string>> encodings;
  if (field.is_map()) {
    std::string entries;
    for (uint64_t key = 0; entries.size() < size; ++key) {
      entries += wire::Bytes(number, wire::Number(1, key));
    }
    encodings = {{"empty entries", RepeatTo(size, empty)}, {"entries", entries}};
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const int unknown = UnknownNumber(*field.message_type());
    const auto inside = [&](const std::string& fields) { return wire::Bytes(number, fields); };
    const std::string groups =
        RepeatTo(size / 2, wire::Tag(unknown, 3)) + RepeatTo(size / 2, wire::Tag(unknown, 4));
    encodings = {
        {"empty messages", RepeatTo(size, empty)},
        {"unknown numbers", inside(RepeatTo(size, wire::Number(unknown, 0)))},
        {"unknown texts", inside(RepeatTo(size, wire::Bytes(unknown, "")))},
        {"nested groups", inside(groups)},
        {"unknown fields in many messages", RepeatTo(size, inside(wire::Number(unknown, 0)))}};
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    encodings = {{"empty texts", RepeatTo(size, empty)},
                 {"short texts", RepeatTo(size, wire::Bytes(number, "a"))},
                 {"texts of 16 bytes", RepeatTo(size, wire::Bytes(number, "0123456789abcdef"))},
                 {"a long text", wire::Bytes(number, std::string(size, 'a'))}};
    for (const std::string& json : JsonTexts(size)) {
      encodings.emplace_back("JSON " + json.substr(0, 12), wire::Bytes(number, json));
    }
  } else {
    encodings = {{"numbers", RepeatTo(size, wire::Number(number, 1))},
                 {"packed numbers", wire::Bytes(number, std::string(size, '\1'))},
                 {"packed lists of one", RepeatTo(size, wire::Bytes(number, "\1"))}};
  }
  return encodings;
}

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
    const auto size = static_cast<int64_t>(request.size());
    const std::vector<std::string> requests = {request};
    const int64_t before = AllocatedBytes();
    ResetPeak();
    const RawAnswer answer = CallRaw(direct_, rpc, requests);
    // The server gets the array of `requests` itself. It counts as the received bytes.
    const int64_t held = PeakAllocatedBytes() - before + size;
    EXPECT_LE(held, 4 * size + kMiB)
        << rpc << name << ": " << size << " bytes; " << answer.status.error_message();
    return answer.status;
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
