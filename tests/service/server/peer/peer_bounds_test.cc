// A request to the listener of peers makes the replica hold at most 4 bytes for each byte received,
// plus 1 MiB, as those of clients do (request_bounds_test.cc).
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "longstream/peer/v1/peer.pb.h"
#include "service/server/peer/peer_client.h"
#include "service/server/peer/peer_service.h"
#include "tests/service/server/transport/bounded_call.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

const std::string kId(32, '1');

// Refuses each request of a peer at once.
class RefusingEvents final : public fleet::PeerEvents {
 public:
  explicit RefusingEvents(PeerClient* client) : client_(client) {}
  void MessageArrived(const fleet::ReplicaName& from, fleet::PeerMessage message) override {
    if (const auto* fetch = std::get_if<fleet::Fetch>(&message)) {
      client_->Send(from, fleet::Refused{fetch->session, fetch->request, fleet::Refusal::kNotMine});
    } else if (const auto* offer = std::get_if<fleet::Offer>(&message)) {
      client_->Send(from,
                    fleet::Refused{offer->session, offer->request, fleet::Refusal::kNotTaken});
    }
  }

 private:
  PeerClient* const client_;
};

// The turn has ended.
class EndedStream final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  explicit EndedStream(AttachCall call) : call_(std::move(call)) { Finish(grpc::Status::OK); }
  void OnDone() override { delete this; }

 private:
  const AttachCall call_;
};

class PeerBoundsTest : public testing::Test {
 protected:
  PeerBoundsTest() {
    client_.SetSelf("b/2");
    client_.SetEvents(&events_);
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    direct_ = server_->InProcessChannel(grpc::ChannelArguments());
  }
  ~PeerBoundsTest() override { server_->Shutdown(); }

  // Fields that make a message of this type valid, so that the replica reads the rest.
  std::string ValidFields(const Descriptor& type) {
    if (type.name() == "SessionKey") return wire::Bytes(2, kId);
    if (type.name() == "Offer" || type.name() == "FetchRequest") {
      return Sender() + wire::Number(3, ++last_) + wire::Number(4, 1) +
             (type.name() == "Offer" ? wire::Number(5, 1) : "");
    }
    if (type.name() == "AttachRequest" || type.name() == "CancelRequest") {
      return Sender() + wire::Bytes(3, kId);
    }
    if (type.name() == "Moved") return wire::Bytes(1, wire::Bytes(2, kId)) + wire::Number(2, 1);
    return type.name() == "NotifyRequest" ? wire::Bytes(1, "a/1") : "";
  }
  static std::string Sender() {
    return wire::Bytes(1, "a/1") + wire::Bytes(2, wire::Bytes(2, kId));
  }
  // The request of this type in which `fields` is a part of the message of the path's last field.
  std::string RequestWith(const Descriptor& type, const Path& path, std::string fields) {
    for (size_t i = path.size() - 1; i > 0; --i) {
      const FieldDescriptor& outer = *path[i - 1];
      fields = wire::Bytes(outer.number(), ValidFields(*outer.message_type()) + fields);
    }
    return ValidFields(type) + fields;
  }
  void TryEveryField(const google::protobuf::MethodDescriptor& method) {
    const std::string rpc = "/" + method.service()->full_name() + "/" + method.name();
    const Descriptor& type = *method.input_type();
    for (const size_t size : kSizes) {
      const int unknown = UnknownNumber(type);
      for (const std::string& part : {wire::Number(unknown, 0), wire::Bytes(unknown, "")}) {
        ExpectBoundedCall(direct_, rpc, " unknown fields",
                          ValidFields(type) + RepeatTo(size, part));
      }
      VisitFields(type, {}, [&](const Path& path) {
        for (const auto& [name, fields] : Encodings(*path.back(), size)) {
          ExpectBoundedCall(direct_, rpc, NameOf(path) + ", " + name,
                            RequestWith(type, path, fields));
        }
      });
    }
  }

  int attached_ = 0;
  int cancelled_ = 0;
  uint64_t last_ = 0;  // number of a request
  PeerClient client_{PeerClient::Options{}};
  RefusingEvents events_{&client_};
  RequestMemory memory_{1 << 30};
  PeerService service_{
      client_.core(),
      [this](grpc::CallbackServerContext* /*context*/, AttachCall call) {
        ++attached_;
        return new EndedStream(std::move(call));
      },
      [this](const SessionKey& /*session*/, const fleet::TurnId& /*turn*/, const auto& cancelled) {
        ++cancelled_;
        cancelled(v1::Turn());
      },
      &memory_, AuthorizeEverybody};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> direct_;
};

TEST_F(PeerBoundsTest, EveryFieldOfEveryCall) {
  const auto* const service = peer::v1::FetchRequest::descriptor()->file()->service(0);
  // Once without counting: the first call of a method makes what stays.
  for (int i = 0; i < service->method_count(); ++i) {
    const auto& method = *service->method(i);
    const RawAnswer answer = CallRaw(direct_, "/" + service->full_name() + "/" + method.name(),
                                     {ValidFields(*method.input_type())});
    EXPECT_NE(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method.name();
  }
  EXPECT_EQ(attached_, 1);
  EXPECT_EQ(cancelled_, 1);
  for (int i = 0; i < service->method_count(); ++i) TryEveryField(*service->method(i));
}

// A client's request as a peer relays it is decoded too, while its bytes are a field of the peer's
// message: one copy more than of a client's own call.
TEST_F(PeerBoundsTest, EveryFieldOfARelayedRequest) {
  const Descriptor& type = *v1::GenerateRequest::descriptor();
  const std::string attach = ValidFields(*peer::v1::AttachRequest::descriptor());
  for (const size_t size : kSizes) {
    VisitFields(type, {}, [&](const Path& path) {
      for (const auto& [name, fields] : Encodings(*path.back(), size)) {
        ExpectBoundedCall(direct_, "/longstream.peer.v1.Peer/Attach", NameOf(path) + ", " + name,
                          attach + wire::Bytes(4, RequestWith(type, path, fields)), 5);
      }
    });
  }
}

}  // namespace
}  // namespace longstream
