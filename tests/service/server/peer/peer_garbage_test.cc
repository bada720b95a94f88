// Peers that say what they may not: malformed requests, and answers in a wrong order.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "longstream/peer/v1/peer.grpc.pb.h"
#include "service/server/peer/caches/piece_bytes.h"
#include "service/server/peer/peer_messages.h"
#include "tests/service/server/peer/peers_fixture.h"

namespace longstream {
namespace {

using testing::HasSubstr;

std::string Id() { return std::string(31, '0') + "7"; }

peer::v1::SessionKey Key() {
  peer::v1::SessionKey key;
  key.set_tenant("acme");
  key.set_session_id(Id());
  return key;
}

peer::v1::FetchRequest GoodFetch(fleet::Number number = 1) {
  peer::v1::FetchRequest request;
  request.set_sender("x/1");
  *request.mutable_session() = Key();
  request.set_request(number);
  request.set_epoch(1);
  return request;
}

peer::v1::Offer GoodOffer(fleet::Number number = 1) {
  peer::v1::Offer offer;
  offer.set_sender("x/1");
  *offer.mutable_session() = Key();
  offer.set_request(number);
  offer.set_epoch(1);
  offer.set_version(1);
  return offer;
}

// A replica, and a program that calls it.
class PeerGarbageTest : public testing::Test {
 protected:
  PeerGarbageTest() : replica_("a/1") {
    replica_.Listen();
    stub_ = peer::v1::Peer::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(replica_.server->port()),
                            grpc::InsecureChannelCredentials()));
  }
  grpc::Status Fetch(const peer::v1::FetchRequest& request) {
    grpc::ClientContext context;
    const auto stream = stub_->Fetch(&context, request);
    peer::v1::FetchResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  }
  grpc::Status Offer(const peer::v1::OfferRequest& request) {
    grpc::ClientContext context;
    const auto stream = stub_->Offer(&context);
    stream->Write(request);
    stream->WritesDone();
    peer::v1::OfferResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  }
  grpc::Status Notify(const peer::v1::NotifyRequest& request) {
    grpc::ClientContext context;
    peer::v1::NotifyResponse response;
    return stub_->Notify(&context, request, &response);
  }
  // Sends an offer and these pieces to the replica, whose driver takes them. Returns how the caches
  // have arrived.
  absl::Status OfferPieces(const std::vector<peer::v1::CachePiece>& pieces) {
    flow_.written = 0;
    grpc::ClientContext context;
    const auto stream = stub_->Offer(&context);
    peer::v1::OfferRequest request;
    *request.mutable_offer() = GoodOffer(++last_);
    request.mutable_offer()->set_has_caches(true);
    stream->Write(request);
    const auto offer = replica_.inbox.Next<fleet::Offer>("x/1");
    if (!offer.has_value()) return absl::UnknownError("no offer");
    Arrival arrival;
    replica_.client->ReceiveCaches(
        "x/1", offer->request, WriteInto(std::make_shared<TestWriter>(&flow_)), arrival.Callback());
    for (const peer::v1::CachePiece& piece : pieces) {
      *request.mutable_piece() = piece;
      stream->Write(request);
    }
    stream->WritesDone();
    absl::Status status = arrival.Wait();
    context.TryCancel();
    stream->Finish();
    return status;
  }

  Flow flow_;
  TestReplica replica_;
  std::unique_ptr<peer::v1::Peer::Stub> stub_;
  fleet::Number last_ = 100;
};

TEST_F(PeerGarbageTest, FetchRequests) {
  using Request = peer::v1::FetchRequest;
  const std::pair<std::function<void(Request*)>, const char*> cases[] = {
      {[](Request* r) { r->Clear(); }, "sender: expected the name of a replica"},
      {[](Request* r) { r->set_sender(""); }, "sender: expected"},
      {[](Request* r) { r->set_sender("a b"); }, "found 'a b'"},
      {[](Request* r) { r->set_sender(std::string(129, 'a')); }, "1 to 128 characters"},
      {[](Request* r) { r->clear_session(); }, "session.session_id"},
      {[](Request* r) { r->mutable_session()->set_session_id("x"); }, "session.session_id"},
      {[](Request* r) { r->mutable_session()->set_tenant("a/b"); }, "session.tenant: expected"},
      {[](Request* r) { r->mutable_session()->set_tenant(std::string(65, 'a')); },
       "session.tenant: expected"},
      {[](Request* r) { r->set_request(0); }, "request: expected 1 ... 2^63 - 1, found 0"},
      {[](Request* r) { r->set_request(UINT64_MAX); }, "request: expected 1 ... 2^63 - 1"},
      {[](Request* r) { r->set_epoch(0); }, "epoch: expected 1 or more, found 0"},
      {[](Request* r) { r->set_epoch(-5); }, "epoch: expected 1 or more, found -5"},
      {[](Request* r) { r->set_turn_id("7"); }, "turn_id"},
  };
  for (const auto& [change, error] : cases) {
    Request request = GoodFetch();
    change(&request);
    const grpc::Status status = Fetch(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << error;
    EXPECT_THAT(status.error_message(), HasSubstr(error));
  }
  EXPECT_EQ(replica_.inbox.size(), 0u);
  EXPECT_EQ(replica_.open_calls(), 0u);
}

TEST_F(PeerGarbageTest, OfferRequests) {
  using Request = peer::v1::OfferRequest;
  const std::pair<std::function<void(Request*)>, const char*> cases[] = {
      {[](Request* r) { r->Clear(); }, "offer: expected it in the first message"},
      {[](Request* r) { r->mutable_piece()->set_header("h"); }, "offer: expected it in the first"},
      {[](Request* r) { r->mutable_offer()->set_sender("\n"); }, "sender: expected"},
      {[](Request* r) { r->mutable_offer()->clear_session(); }, "session.session_id"},
      {[](Request* r) { r->mutable_offer()->set_request(0); }, "request: expected"},
      {[](Request* r) { r->mutable_offer()->set_epoch(0); }, "epoch: expected"},
      {[](Request* r) { r->mutable_offer()->set_version(0); }, "version: expected"},
  };
  for (const auto& [change, error] : cases) {
    Request request;
    *request.mutable_offer() = GoodOffer();
    change(&request);
    const grpc::Status status = Offer(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << error;
    EXPECT_THAT(status.error_message(), HasSubstr(error));
  }
  EXPECT_EQ(replica_.inbox.size(), 0u);
  EXPECT_EQ(replica_.open_calls(), 0u);
}

TEST_F(PeerGarbageTest, Notices) {
  peer::v1::NotifyRequest request;
  EXPECT_EQ(Notify(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_sender("x/1");
  EXPECT_THAT(Notify(request).error_message(), HasSubstr("notice: expected moved"));
  *request.mutable_moved()->mutable_session() = Key();
  EXPECT_THAT(Notify(request).error_message(), HasSubstr("epoch: expected 1 or more"));
  EXPECT_EQ(replica_.inbox.size(), 0u);
  request.mutable_moved()->set_epoch(2);
  EXPECT_TRUE(Notify(request).ok());
  EXPECT_EQ(replica_.inbox.Next<fleet::Moved>("x/1")->epoch, 2);
}

TEST_F(PeerGarbageTest, Attaches) {
  peer::v1::AttachRequest request;
  grpc::ClientContext context;
  const auto stream = stub_->Attach(&context, request);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << "nobody relays here";
}

TEST_F(PeerGarbageTest, ANumberThatIsInUse) {
  grpc::ClientContext context;
  const auto first = stub_->Fetch(&context, GoodFetch(5));
  ASSERT_TRUE(replica_.inbox.Next<fleet::Fetch>("x/1").has_value());
  const grpc::Status again = Fetch(GoodFetch(5));
  EXPECT_EQ(again.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(again.error_message(), "request: the peer has an open call with the number 5");
  peer::v1::OfferRequest offer;
  *offer.mutable_offer() = GoodOffer(5);
  EXPECT_EQ(Offer(offer).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(replica_.inbox.size(), 0u);
  // The first call goes on.
  replica_.client->Send("x/1", fleet::Refused{TestSession(), 5 | kOfPeer, fleet::Refusal::kBusy});
  peer::v1::FetchResponse response;
  EXPECT_TRUE(first->Read(&response));
  EXPECT_EQ(response.refused().why(), peer::v1::REFUSAL_BUSY);
  EXPECT_TRUE(first->Finish().ok());
}

peer::v1::CachePiece Header() {
  peer::v1::CachePiece piece;
  piece.set_header("header of caches");
  return piece;
}
peer::v1::CachePiece Data(size_t bytes) {
  peer::v1::CachePiece piece;
  piece.mutable_data();
  VisitPattern(0, bytes, [&](std::string_view run) { piece.mutable_data()->append(run); });
  return piece;
}
peer::v1::CachePiece End(uint64_t bytes) {
  peer::v1::CachePiece piece;
  piece.mutable_end()->set_bytes(bytes);
  return piece;
}

TEST_F(PeerGarbageTest, PiecesOfAnOffer) {
  const std::pair<std::vector<peer::v1::CachePiece>, const char*> cases[] = {
      {{}, "the caches ended before their end"},
      {{Header()}, "the caches ended before their end"},
      {{Header(), Data(10)}, "the caches ended before their end"},
      {{Data(10)}, "piece: expected the header first"},
      {{End(0)}, "piece: expected the header first"},
      {{peer::v1::CachePiece()}, "piece: expected header, data or end"},
      {{Header(), Header()}, "piece.header: comes twice"},
      {{Header(), Data(10), End(9)}, "piece.end.bytes: expected 10, which have come, found 9"},
      {{Header(), Data(kMaxPieceBytes + 1)}, "piece: expected at most 1048576 bytes"},
  };
  for (const auto& [pieces, error] : cases) {
    EXPECT_THAT(OfferPieces(pieces).message(), HasSubstr(error));
    EXPECT_FALSE(flow_.finished);
  }
  EXPECT_TRUE(OfferPieces({Header(), Data(10), End(10)}).ok());
  EXPECT_TRUE(flow_.finished);
  EXPECT_TRUE(WaitUntil([&] { return flow_.writers == 0; }));
}

// A message in the middle that is no piece.
TEST_F(PeerGarbageTest, ASecondOffer) {
  grpc::ClientContext context;
  const auto stream = stub_->Offer(&context);
  peer::v1::OfferRequest request;
  *request.mutable_offer() = GoodOffer();
  request.mutable_offer()->set_has_caches(true);
  stream->Write(request);
  const auto offer = replica_.inbox.Next<fleet::Offer>("x/1");
  ASSERT_TRUE(offer.has_value());
  Arrival arrival;
  replica_.client->ReceiveCaches(
      "x/1", offer->request, WriteInto(std::make_shared<TestWriter>(&flow_)), arrival.Callback());
  stream->Write(request);
  peer::v1::OfferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(arrival.Wait().ok());
}

// A replica whose answers the test writes.
class OddPeer final : public peer::v1::Peer::Service {
 public:
  OddPeer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OddPeer() override { server_->Shutdown(); }

  fleet::Replica lease() const { return {"odd/1", "127.0.0.1:" + std::to_string(port_), ""}; }
  void SetAnswers(std::vector<peer::v1::FetchResponse> answers) { answers_ = std::move(answers); }

  grpc::Status Fetch(grpc::ServerContext* /*context*/, const peer::v1::FetchRequest* /*request*/,
                     grpc::ServerWriter<peer::v1::FetchResponse>* writer) override {
    for (const peer::v1::FetchResponse& answer : answers_) writer->Write(answer);
    return grpc::Status::OK;
  }
  grpc::Status Offer(
      grpc::ServerContext* /*context*/,
      grpc::ServerReaderWriter<peer::v1::OfferResponse, peer::v1::OfferRequest>* stream) override {
    peer::v1::OfferRequest request;
    stream->Read(&request);
    peer::v1::OfferResponse response;  // has no answer
    stream->Write(response);
    response.mutable_refused()->set_why(static_cast<peer::v1::Refusal>(99));
    stream->Write(response);
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::vector<peer::v1::FetchResponse> answers_;
  std::unique_ptr<grpc::Server> server_;
};

peer::v1::FetchResponse GivenAnswer(int64_t epoch = 3, int64_t version = 9) {
  peer::v1::FetchResponse response;
  response.mutable_given()->set_epoch(epoch);
  response.mutable_given()->set_version(version);
  response.mutable_given()->set_has_caches(true);
  return response;
}
peer::v1::FetchResponse RefusedAnswer(int why) {
  peer::v1::FetchResponse response;
  response.mutable_refused()->set_why(static_cast<peer::v1::Refusal>(why));
  return response;
}
peer::v1::FetchResponse PieceAnswer(const peer::v1::CachePiece& piece) {
  peer::v1::FetchResponse response;
  *response.mutable_piece() = piece;
  return response;
}

class OddAnswersTest : public PeerGarbageTest {
 protected:
  OddAnswersTest() { replica_.client->SetReplicas({odd_.lease()}); }

  fleet::Number Ask() {
    replica_.client->Send("odd/1", fleet::Fetch{TestSession(), ++last_, 1, {}});
    return last_;
  }

  OddPeer odd_;
};

TEST_F(OddAnswersTest, ThatAreNone) {
  const std::vector<peer::v1::FetchResponse> cases[] = {
      {},
      {peer::v1::FetchResponse()},
      {PieceAnswer(Header())},
      {GivenAnswer(0)},
      {GivenAnswer(1, -1)},
      {RefusedAnswer(0)},
      {RefusedAnswer(99)},
  };
  for (const auto& answers : cases) {
    odd_.SetAnswers(answers);
    const fleet::Number number = Ask();
    const auto refused = replica_.inbox.Next<fleet::Refused>("odd/1");
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->request, number);
    EXPECT_EQ(refused->why, fleet::Refusal::kNotYet);
  }
  EXPECT_TRUE(WaitUntil([&] { return replica_.open_calls() == 0; }));
  EXPECT_EQ(replica_.inbox.size(), 0u);
}

TEST_F(OddAnswersTest, TwoAnswers) {
  odd_.SetAnswers({RefusedAnswer(peer::v1::REFUSAL_BUSY), GivenAnswer(), RefusedAnswer(1)});
  Ask();
  EXPECT_EQ(replica_.inbox.Next<fleet::Refused>("odd/1")->why, fleet::Refusal::kBusy);
  EXPECT_TRUE(WaitUntil([&] { return replica_.open_calls() == 0; }));
  EXPECT_EQ(replica_.inbox.size(), 0u);
}

TEST_F(OddAnswersTest, PiecesInAWrongOrder) {
  const std::vector<peer::v1::CachePiece> cases[] = {
      {},       {Header()},           {Header(), Data(10)},          {Data(10)},
      {End(0)}, {Header(), Header()}, {Header(), Data(10), End(11)}, {peer::v1::CachePiece()}};
  for (const auto& pieces : cases) {
    std::vector<peer::v1::FetchResponse> answers = {GivenAnswer()};
    for (const peer::v1::CachePiece& piece : pieces) answers.push_back(PieceAnswer(piece));
    odd_.SetAnswers(answers);
    const fleet::Number number = Ask();
    ASSERT_TRUE(replica_.inbox.Next<fleet::Given>("odd/1").has_value());
    Arrival arrival;
    replica_.client->ReceiveCaches("odd/1", number, WriteInto(std::make_shared<TestWriter>(&flow_)),
                                   arrival.Callback());
    EXPECT_FALSE(arrival.Wait().ok());
    EXPECT_FALSE(flow_.finished);
    flow_.written = 0;
  }
  EXPECT_TRUE(WaitUntil([&] { return replica_.open_calls() == 0; }));
  EXPECT_TRUE(WaitUntil([&] { return flow_.writers == 0; }));
}

// The answer without a refusal is none, and ends the call.
TEST_F(OddAnswersTest, OfAnOffer) {
  replica_.client->Send("odd/1", fleet::Offer{TestSession(), 1, 1, 1, false});
  EXPECT_TRUE(WaitUntil([&] { return replica_.open_calls() == 0; }));
  EXPECT_EQ(replica_.inbox.size(), 0u);
}

TEST(PeerMessagesTest, AnUnknownRefusalIsTheMildOne) {
  peer::v1::Refused refused;
  refused.set_why(static_cast<peer::v1::Refusal>(99));
  EXPECT_EQ(RefusedFrom(refused, TestSession(), 1, fleet::Refusal::kNotYet).why,
            fleet::Refusal::kNotYet);
  EXPECT_EQ(RefusedFrom(refused, TestSession(), 1, fleet::Refusal::kNotTaken).why,
            fleet::Refusal::kNotTaken);
}

}  // namespace
}  // namespace longstream
