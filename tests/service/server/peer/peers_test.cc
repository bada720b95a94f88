// The messages between two replicas, in both directions.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "longstream/peer/v1/peer.grpc.pb.h"
#include "tests/service/server/peer/peers_fixture.h"

namespace longstream {
namespace {

using fleet::Refusal;

TEST_F(PeersTest, AFetchArrivesAsItWasSent) {
  const fleet::TurnId turn{1, 2};
  a_.client->Send("b/2", fleet::Fetch{TestSession(), 17, 4, turn});
  const auto fetch = b_.inbox.Next<fleet::Fetch>("a/1");
  ASSERT_TRUE(fetch.has_value());
  EXPECT_EQ(fetch->session, TestSession());
  EXPECT_EQ(fetch->request, 17 | kOfPeer) << "no request of b has this number";
  EXPECT_EQ(fetch->epoch, 4);
  EXPECT_EQ(fetch->turn, turn);
  a_.client->Send("b/2", fleet::Fetch{{"", SessionId{1, 1}}, 18, 1, {}});
  const auto change = b_.inbox.Next<fleet::Fetch>("a/1");
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->session.tenant, "");
  EXPECT_EQ(change->turn, fleet::TurnId());
}

TEST_F(PeersTest, EveryRefusalOfAFetch) {
  fleet::Number number = 0;
  for (const Refusal why : {Refusal::kNotMine, Refusal::kRunning, Refusal::kBusy, Refusal::kNotYet,
                            Refusal::kNotTaken}) {
    const fleet::Fetch fetch = Ask(++number);
    b_.client->Send("a/1", fleet::Refused{fetch.session, fetch.request, why});
    const auto refused = a_.inbox.Next<fleet::Refused>("b/2");
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->session, TestSession());
    EXPECT_EQ(refused->request, number);
    EXPECT_EQ(refused->why, why);
  }
  ExpectNothingIsLeft();
}

TEST_F(PeersTest, GivenWithoutCaches) {
  const fleet::Fetch fetch = Ask(5);
  b_.client->Send("a/1", fleet::Given{fetch.session, fetch.request, 3, 9, false});
  const auto given = a_.inbox.Next<fleet::Given>("b/2");
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(given->session, TestSession());
  EXPECT_EQ(given->request, 5u);
  EXPECT_EQ(given->epoch, 3);
  EXPECT_EQ(given->version, 9);
  EXPECT_FALSE(given->has_caches);
  ExpectNothingIsLeft();
}

TEST_F(PeersTest, AnOfferIsRefusedOrTaken) {
  const fleet::Offer refused = Offer(1, /*has_caches=*/false);
  EXPECT_EQ(refused.session, TestSession());
  EXPECT_EQ(refused.epoch, 3);
  EXPECT_EQ(refused.version, 9);
  EXPECT_FALSE(refused.has_caches);
  a_.client->Send("b/2", fleet::Refused{refused.session, refused.request, Refusal::kNotTaken});
  const auto answer = b_.inbox.Next<fleet::Refused>("a/1");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->request, 1u);
  EXPECT_EQ(answer->why, Refusal::kNotTaken);

  const fleet::Offer taken = Offer(2, /*has_caches=*/false);
  a_.client->Send("b/2", fleet::Moved{.session = taken.session, .epoch = 4});
  const auto moved = b_.inbox.Next<fleet::Moved>("a/1");
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(moved->session, TestSession());
  EXPECT_EQ(moved->epoch, 4);
  EXPECT_FALSE(moved->closed);
  ExpectNothingIsLeft();
}

TEST_F(PeersTest, AnOfferWithCachesMayBeRefusedAtOnce) {
  const fleet::Offer offer = Offer();
  EXPECT_TRUE(offer.has_caches);
  a_.client->Send("b/2", fleet::Refused{offer.session, offer.request, Refusal::kNotTaken});
  EXPECT_TRUE(b_.inbox.Next<fleet::Refused>("a/1").has_value());
  b_.client->SendCaches("a/1", 1, std::make_shared<TestReader>(&flow_, 100));  // too late
  ExpectNothingIsLeft();
}

TEST_F(PeersTest, Notices) {
  a_.client->Send("b/2", fleet::Moved{.session = TestSession(), .epoch = 6});
  a_.client->Send("b/2", fleet::Moved{.session = TestSession(2), .epoch = 7, .closed = true});
  for (int i = 0; i < 2; ++i) {  // they may overtake each other
    const auto moved = b_.inbox.Next<fleet::Moved>("a/1");
    ASSERT_TRUE(moved.has_value());
    EXPECT_EQ(moved->session, moved->closed ? TestSession(2) : TestSession());
    EXPECT_EQ(moved->epoch, moved->closed ? 7 : 6);
  }
}

// A notice that the session was closed is no answer to an Offer of it.
TEST_F(PeersTest, AnOfferWaitsWhenItsSessionIsClosed) {
  const fleet::Offer offer = Offer(1, /*has_caches=*/false);
  a_.client->Send("b/2", fleet::Moved{.session = offer.session, .epoch = 3, .closed = true});
  const auto moved = b_.inbox.Next<fleet::Moved>("a/1");
  ASSERT_TRUE(moved.has_value());
  EXPECT_TRUE(moved->closed);
  // The call of the notice may end a moment later than it arrives.
  EXPECT_TRUE(WaitUntil([&] { return a_.open_calls() == 1; })) << a_.open_calls();
  a_.client->Forget("b/2", offer.request);
  ExpectNothingIsLeft();
}

// Both replicas draw the same numbers.
TEST_F(PeersTest, EqualNumbersOfTwoReplicasAreDifferentRequests) {
  const fleet::Fetch fetch = Ask(1);
  const fleet::Offer offer = Offer(1, /*has_caches=*/false);
  a_.client->Send("b/2", fleet::Refused{offer.session, offer.request, Refusal::kNotTaken});
  EXPECT_EQ(b_.inbox.Next<fleet::Refused>("a/1")->why, Refusal::kNotTaken);
  // The call of the offer may end a moment later than its answer arrives. The Fetch of a still
  // waits.
  EXPECT_TRUE(WaitUntil([&] { return b_.open_calls() == 1; })) << b_.open_calls();
  b_.client->Send("a/1", fleet::Refused{fetch.session, fetch.request, Refusal::kBusy});
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("b/2")->why, Refusal::kBusy);
  ExpectNothingIsLeft();
}

TEST_F(PeersTest, LateAndRepeatedAnswersAreLost) {
  const fleet::Fetch fetch = Ask(1);
  for (int i = 0; i < 3; ++i) {
    b_.client->Send("a/1", fleet::Refused{fetch.session, fetch.request, Refusal::kBusy});
  }
  b_.client->Send("a/1", fleet::Given{fetch.session, 99 | kOfPeer, 3, 9, false});
  EXPECT_TRUE(a_.inbox.Next<fleet::Refused>("b/2").has_value());
  ExpectNothingIsLeft();
  EXPECT_EQ(a_.inbox.size(), 0u);
}

TEST_F(PeersTest, AReplicaWithoutALeaseGetsNothing) {
  a_.client->Send("c/3", fleet::Fetch{TestSession(), 1, 1, {}});
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("c/3")->why, Refusal::kNotYet);
  a_.client->Send("c/3", fleet::Offer{TestSession(), 2, 1, 1, false});
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("c/3")->why, Refusal::kNotTaken);
  a_.client->Send("c/3", fleet::Moved{.session = TestSession(), .epoch = 1});
  EXPECT_EQ(a_.open_calls(), 0u);
}

TEST_F(PeersTest, CallsEndWithTheLease) {
  Ask(1);
  a_.client->SetReplicas({});
  ExpectNothingIsLeft();
}

TEST_F(PeersTest, ForgottenCallsEndOnBothSides) {
  Ask(1);
  a_.client->Forget("b/2", 1);
  ExpectNothingIsLeft();
  EXPECT_EQ(a_.inbox.size(), 0u) << "nothing waits for an answer";
  const fleet::Fetch fetch = Ask(2);
  b_.client->Forget("a/1", fetch.request);
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("b/2")->why, Refusal::kNotYet);
  const fleet::Offer offer = Offer(3);
  a_.client->Forget("b/2", offer.request);
  ExpectNothingIsLeft();
  Offer(4);
  b_.client->Forget("a/1", 4);
  ExpectNothingIsLeft();
  b_.client->Forget("a/1", 4);  // of no use
  EXPECT_EQ(b_.inbox.size(), 0u);
}

// The owner of a session hears at once that its receiver is gone.
TEST_F(PeersTest, AGivingThatBreaksOff) {
  const fleet::Fetch fetch = AskAndGive(1);
  Offer(2);
  a_.server->Shutdown();
  a_.client.reset();
  EXPECT_TRUE(WaitUntil([&] { return b_.inbox.broken().size() == 2; }));
  EXPECT_THAT(b_.inbox.broken(),
              testing::UnorderedElementsAre(testing::Pair("a/1", fetch.request),
                                            testing::Pair("a/1", fleet::Number{2})));
}

// The peer has ended its call, or has never had one.
TEST_F(PeersTest, AGivingThatCannotBeSentBreaksOff) {
  const fleet::Fetch fetch = Ask(1);
  a_.client->Forget("b/2", 1);
  ExpectNothingIsLeft();
  b_.client->Send("a/1", fleet::Given{fetch.session, fetch.request, 3, 9, true});
  EXPECT_TRUE(WaitUntil([&] { return !b_.inbox.broken().empty(); }));
  EXPECT_THAT(b_.inbox.broken(), testing::ElementsAre(testing::Pair("a/1", fetch.request)));
}

TEST_F(PeersTest, AGivingThatEndsWellDoesNotBreakOff) {
  const fleet::Fetch without = Ask(1);
  b_.client->Send("a/1", fleet::Given{without.session, without.request, 3, 9, false});
  const fleet::Offer taken = Offer(2, /*has_caches=*/false);
  a_.client->Send("b/2", fleet::Moved{.session = taken.session, .epoch = 4});
  Offer(3);
  b_.client->Forget("a/1", 3);
  EXPECT_TRUE(a_.inbox.Next<fleet::Given>("b/2").has_value());
  const fleet::Fetch none = AskAndGive(4);
  b_.client->SendCaches("a/1", none.request, nullptr);
  Arrival arrival;
  a_.client->ReceiveCaches("b/2", 4, WriteInto(std::make_shared<TestWriter>(&flow_)),
                           arrival.Callback());
  EXPECT_FALSE(arrival.Wait().ok());
  ExpectNothingIsLeft();
  EXPECT_TRUE(b_.inbox.broken().empty());
}

// A pod that is replaced has another name, and perhaps another address.
TEST_F(PeersTest, AReplacedReplicaIsReached) {
  Ask(1);
  b_.server->Shutdown();
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("b/2")->why, Refusal::kNotYet) << "the connection is cut";
  TestReplica next("b/3");
  next.Listen();
  a_.client->SetReplicas({next.lease()});
  a_.client->Send("b/3", fleet::Fetch{TestSession(), 2, 1, {}});
  EXPECT_TRUE(next.inbox.Next<fleet::Fetch>("a/1").has_value());
}

// A message waits for the connection, so that it is not lost while the replica starts.
TEST_F(PeersTest, AMessageWaitsForTheListener) {
  const fleet::Replica lease = b_.lease();
  const int port = b_.server->port();
  b_.server->Shutdown();
  b_.server.reset();
  a_.client->Send("b/2", fleet::Fetch{TestSession(), 1, 1, {}});
  b_.Listen({}, port);
  EXPECT_TRUE(b_.inbox.Next<fleet::Fetch>("a/1").has_value());
}

TEST_F(PeersTest, NothingIsSentBeforeTheReplicaHasAName) {
  PeerClient unnamed(PeerClient::Options{});
  Inbox inbox;
  unnamed.SetEvents(&inbox);
  unnamed.SetReplicas({b_.lease()});
  unnamed.Send("b/2", fleet::Fetch{TestSession(), 1, 1, {}});
  EXPECT_EQ(inbox.Next<fleet::Refused>("b/2")->why, Refusal::kNotYet);
}

TEST_F(PeersTest, APeerGetsUnavailableWhileTheReplicaStarts) {
  b_.client->SetEvents(nullptr);
  a_.client->Send("b/2", fleet::Fetch{TestSession(), 1, 1, {}});
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("b/2")->why, Refusal::kNotYet);
}

// The ends of both objects while calls are open.
TEST_F(PeersTest, AReplicaEndsWithOpenCalls) {
  AskAndGive(1);
  Offer(2);
  Arrival arrival;
  a_.client->ReceiveCaches("b/2", 1, WriteInto(std::make_shared<TestWriter>(&flow_)),
                           arrival.Callback());
  a_.server->Shutdown();
  a_.client.reset();
  EXPECT_FALSE(arrival.Wait().ok());
}

// Each of the calls beyond the limit is answered at once, and the others go on.
class FewCallsTest : public PeersTest {
 protected:
  static PeerLimits Limits() {
    PeerLimits limits = PatientLimits();
    limits.max_calls_of_peer = 3;
    limits.max_calls_of_peers = 5;
    limits.max_own_calls = 40;
    return limits;
  }
  FewCallsTest() : PeersTest(Limits()) {}

  fleet::Number last_ = 0;
};

TEST_F(FewCallsTest, AFloodOfFetches) {
  constexpr int kCalls = 50;
  for (int i = 1; i <= kCalls; ++i) {
    a_.client->Send("b/2", fleet::Fetch{TestSession(i), static_cast<fleet::Number>(i), 1, {}});
  }
  for (int i = 0; i < kCalls - 3; ++i) {
    const auto refused = a_.inbox.Next<fleet::Refused>("b/2");
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->why, Refusal::kNotYet);
  }
  EXPECT_EQ(b_.open_calls(), 3u);
  std::vector<fleet::Fetch> arrived;
  for (int i = 0; i < 3; ++i) arrived.push_back(*b_.inbox.Next<fleet::Fetch>("a/1"));
  EXPECT_EQ(b_.inbox.size(), 0u);
  for (const fleet::Fetch& fetch : arrived) {
    b_.client->Send("a/1", fleet::Given{fetch.session, fetch.request, 1, 1, false});
    EXPECT_TRUE(a_.inbox.Next<fleet::Given>("b/2").has_value());
  }
  ExpectNothingIsLeft();
  Ask(kCalls + 1);
}

TEST_F(FewCallsTest, AFloodOfOffers) {
  for (int i = 1; i <= 4; ++i) {
    b_.client->Send("a/1", fleet::Offer{TestSession(i), static_cast<fleet::Number>(i), 1, 1, true});
  }
  EXPECT_EQ(b_.inbox.Next<fleet::Refused>("a/1")->why, Refusal::kNotTaken);
  EXPECT_EQ(a_.open_calls(), 3u);
}

// Streams that have not said whose they are.
TEST_F(FewCallsTest, AFloodOfStreamsWithoutAMessage) {
  const auto stub = peer::v1::Peer::NewStub(
      grpc::CreateChannel(a_.lease().peer_address, grpc::InsecureChannelCredentials()));
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<peer::v1::OfferRequest, peer::v1::OfferResponse>>
        stream;
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 10; ++i) {
    calls.push_back(std::make_unique<Call>());
    calls.back()->stream = stub->Offer(&calls.back()->context);
  }
  EXPECT_TRUE(WaitUntil([&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
    const auto stream = stub->Offer(&context);
    return stream->Finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }));
  for (const auto& call : calls) {
    call->context.TryCancel();
    call->stream->Finish();
  }
  // The places are free when the server has seen the ends.
  EXPECT_TRUE(WaitUntil([&] {
    b_.client->Send("a/1", fleet::Offer{TestSession(), ++last_, 1, 1, false});
    return WaitUntil([&] { return a_.inbox.size() + b_.inbox.size() > 0; }) && a_.inbox.size() > 0;
  }));
}

// A peer that is silent: each wait ends. These times are long enough for what must succeed.
constexpr absl::Duration kShort = absl::Seconds(1);

class SilentPeerTest : public PeersTest {
 protected:
  static PeerLimits Limits() {
    PeerLimits limits = PatientLimits();
    limits.answer_timeout = kShort;
    limits.taking_timeout = kShort;
    return limits;
  }
  SilentPeerTest() : PeersTest(Limits()) {}
};

TEST_F(SilentPeerTest, NeverAnswers) {
  a_.client->Send("b/2", fleet::Fetch{TestSession(), 1, 1, {}});
  b_.client->Send("a/1", fleet::Offer{TestSession(), 1, 1, 1, false});
  b_.client->Send("a/1", fleet::Offer{TestSession(2), 2, 1, 1, true});  // and no caches come
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("b/2")->why, Refusal::kNotYet);
  ExpectNothingIsLeft();
}

TEST_F(SilentPeerTest, AHostThatDoesNotExist) {
  fleet::Replica nobody = b_.lease();
  nobody.name = "c/3";
  nobody.peer_address = "127.0.0.1:1";
  a_.client->SetReplicas({nobody});
  a_.client->Send("c/3", fleet::Fetch{TestSession(), 1, 1, {}});
  EXPECT_EQ(a_.inbox.Next<fleet::Refused>("c/3")->why, Refusal::kNotYet);
  ExpectNothingIsLeft();
}

class ImpatientOfferTest : public PeersTest {
 protected:
  static PeerLimits Limits() {
    PeerLimits limits = PatientLimits();
    limits.connect_timeout = kShort;
    return limits;
  }
  ImpatientOfferTest() : PeersTest(Limits()) {}
};

// A drain offers the session to another peer.
TEST_F(ImpatientOfferTest, AnOfferToAReplicaThatIsNotReachedBreaksOff) {
  fleet::Replica nobody = b_.lease();
  nobody.name = "c/3";
  nobody.peer_address = "127.0.0.1:1";
  a_.client->SetReplicas({nobody});
  a_.client->Send("c/3", fleet::Offer{TestSession(1), 1, 1, 1, /*has_caches=*/false});
  a_.client->Send("c/3", fleet::Offer{TestSession(2), 2, 1, 1, /*has_caches=*/true});
  EXPECT_TRUE(WaitUntil([&] { return a_.inbox.broken().size() == 2; }));
  ExpectNothingIsLeft();
}

// The receiver has never called ReceiveCaches.
TEST_F(SilentPeerTest, TakesNoCaches) {
  const fleet::Fetch fetch = AskAndGive(1);
  b_.client->SendCaches("a/1", fetch.request,
                        std::make_shared<TestReader>(&flow_, uint64_t{64} << 20));
  Offer(2);
  Flow offered;
  b_.client->SendCaches("a/1", 2, std::make_shared<TestReader>(&offered, uint64_t{64} << 20));
  ExpectNothingIsLeft();
  EXPECT_TRUE(WaitUntil([&] { return offered.readers == 0; }));
  EXPECT_LT(flow_.read, uint64_t{64} << 20);
  EXPECT_LT(offered.read, uint64_t{64} << 20);
}

class SilentPiecesTest : public PeersTest {
 protected:
  static PeerLimits Limits() {
    PeerLimits limits = PatientLimits();
    limits.piece_timeout = kShort;
    return limits;
  }
  SilentPiecesTest() : PeersTest(Limits()) {}
};

TEST_F(SilentPiecesTest, CachesThatNeverCome) {
  AskAndGive(1);
  Arrival arrival;
  a_.client->ReceiveCaches("b/2", 1, WriteInto(std::make_shared<TestWriter>(&flow_)),
                           arrival.Callback());
  EXPECT_TRUE(absl::IsUnavailable(arrival.Wait()));
  ExpectNothingIsLeft();
}

// The driver never says where to put the caches.
TEST_F(SilentPiecesTest, AWriterThatNeverComes) {
  const fleet::Fetch fetch = AskAndGive(1);
  b_.client->SendCaches("a/1", fetch.request, std::make_shared<TestReader>(&flow_, 1000));
  Arrival arrival;
  a_.client->ReceiveCaches(
      "b/2", 1, [](const std::string& /*header*/, const auto& /*take*/) {}, arrival.Callback());
  EXPECT_TRUE(absl::IsUnavailable(arrival.Wait()));
  ExpectNothingIsLeft();
}

TEST_F(SilentPiecesTest, OfferedCachesThatNeverCome) {
  const fleet::Offer offer = Offer(1);
  Arrival arrival;
  a_.client->ReceiveCaches("b/2", offer.request, WriteInto(std::make_shared<TestWriter>(&flow_)),
                           arrival.Callback());
  EXPECT_TRUE(absl::IsDeadlineExceeded(arrival.Wait()));
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace longstream
