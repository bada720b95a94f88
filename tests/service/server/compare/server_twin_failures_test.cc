// Twins that are refused or lost, and calls that end early: the turn goes on as without a twin, and
// nothing is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/service/server/compare/twin_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

void ExpectRefusal(const TwinnedTurn& turn, StatusCode code, const std::string& message) {
  EXPECT_EQ(turn.status.error_code(), code);
  EXPECT_EQ(turn.status.error_message(), message);
  EXPECT_TRUE(turn.tokens.empty());
}

TEST_F(TwinTest, ModelsThatCannotBeTwinsAreRefused) {
  v1::GenerateRequest request = TurnOf("a", "nowhere");
  request.set_turn_id("0123456789abcdef0123456789abcdef");
  const TwinnedTurn unknown = Run(request);
  EXPECT_EQ(unknown.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.status.error_message(), HasSubstr("twin_model: no model 'nowhere'; "));
  request.set_twin_model("words");
  ExpectRefusal(Run(request), StatusCode::FAILED_PRECONDITION,
                "twin_model: model words has another tokenizer than model a");
  // The session is as it was, and the id is free.
  request.set_twin_model("b");
  const TwinnedTurn turn = Run(request);
  EXPECT_EQ(turn.started.how(), v1::ATTACH_NEW);
  EXPECT_EQ(turn.started.position(), 0u);
  ExpectWhole(turn, 60);
  ExpectNothingIsLeft();
}

TEST_F(TwinTest, TheTurnGoesOnWithoutATwinThatFails) {
  const v1::GenerateRequest request = TurnOf("a", "fails");
  const TwinnedTurn turn = Run(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.tokens, RunAlone("a", request).tokens);
  // The twin has read the tokens before kFailsAt, and has said one more.
  EXPECT_EQ(turn.rows.size(), kFailsAt - 5 + 1);
  EXPECT_EQ(turn.summary().rows(), turn.rows.size());
  EXPECT_EQ(turn.summary().code(), StatusCode::INTERNAL);
  EXPECT_THAT(turn.summary().error(), HasSubstr("NaN"));
  EXPECT_EQ(turn.summary().usage().generated_tokens(), turn.rows.size());
  ExpectNothingIsLeft();
}

// A turn that fails ends its call, whatever its twin does.
TEST_F(TwinTest, ATurnThatFailsEndsItsTwin) {
  const TwinnedTurn turn = Run(TurnOf("fails", "b"));
  EXPECT_EQ(turn.status.error_code(), StatusCode::INTERNAL);
  EXPECT_LE(turn.rows.size(), turn.tokens.size());
  ExpectNothingIsLeft();
}

// A call that goes on until it is cancelled.
class RunningTurn {
 public:
  RunningTurn(v1::Longstream::Stub& stub, v1::GenerateRequest request) {
    request.set_max_tokens(kEndless);
    reader_ = stub.Generate(&context_, request);
    v1::GenerateResponse response;
    EXPECT_TRUE(reader_->Read(&response)) << reader_->Finish().error_message();
    EXPECT_TRUE(response.has_started());
    thread_ = std::thread([this] {
      v1::GenerateResponse next;
      while (reader_->Read(&next)) {
      }
    });
  }
  ~RunningTurn() { Cancel(); }
  void Cancel() {
    if (!thread_.joinable()) return;
    context_.TryCancel();
    thread_.join();
    reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  std::thread thread_;
};

class ShortWaitTest : public TwinTest {
 protected:
  ShortWaitTest() : TwinTest({.twin_limit = absl::Milliseconds(50)}) {}
};

// The only session of `tight` runs another turn.
TEST_F(ShortWaitTest, ACallWaitsForItsTwinNotForLong) {
  const RunningTurn other(stub(), TurnOf("tight", ""));
  const v1::GenerateRequest request = TurnOf("a", "tight");
  const TwinnedTurn turn = Run(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.tokens, RunAlone("a", request).tokens);
  EXPECT_TRUE(turn.rows.empty());
  EXPECT_EQ(turn.summary().code(), StatusCode::DEADLINE_EXCEEDED);
}

// The turn ends first, because it holds the only session of the model.
TEST_F(TwinTest, ATwinMayReadBehindItsTurn) {
  const v1::GenerateRequest request = TurnOf("tight", "tight");
  const TwinnedTurn turn = Run(request);
  ExpectWhole(turn, 60);
  EXPECT_EQ(turn.tokens, RunAlone("a", request).tokens);
  EXPECT_EQ(turn.summary().sum_kl(), 0.0);
  ExpectNothingIsLeft();
}

// Buffers of three rows with logits, and of about 18 rows in all.
class SmallTwinBuffersTest : public TwinTest {
 protected:
  SmallTwinBuffersTest() : TwinTest({.buffer_bytes = 4096}) {}
};

TEST_F(SmallTwinBuffersTest, RowsOfATwinThatIsBehindHaveNoKl) {
  RunningTurn other(stub(), TurnOf("tight", ""));
  v1::GenerateRequest request = TurnOf("b", "tight");
  request.set_max_tokens(12);
  size_t tokens = 0;
  const TwinnedTurn turn =
      Run(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        tokens += static_cast<size_t>(response.delta().token_ids_size());
        if (tokens == 12) other.Cancel();  // now the twin can begin
      });
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.summary().code(), 0) << turn.summary().error();
  ASSERT_EQ(turn.rows.size(), 12u);
  const TwinnedTurn whole = [&] {
    request.set_session_id(TurnOf("b", "").session_id());
    request.set_twin_model("a");
    return Run(request);
  }();
  double sum_kl = 0;
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(turn.rows[i].has_kl(), i < 4) << i;
    sum_kl += turn.rows[i].kl();
    EXPECT_EQ(turn.rows[i].twin_log_prob(), whole.rows[i].twin_log_prob());
    EXPECT_EQ(turn.rows[i].rank(), whole.rows[i].rank());
    EXPECT_EQ(turn.rows[i].best_token(), whole.rows[i].best_token());
    EXPECT_NEAR(turn.rows[i].delta_p(), whole.rows[i].delta_p(), 1e-6);
  }
  EXPECT_EQ(turn.summary().kl_rows(), 4u);
  EXPECT_EQ(turn.summary().sum_kl(), sum_kl);
  ExpectNothingIsLeft();
}

TEST_F(SmallTwinBuffersTest, ATwinThatIsTooSlowIsLost) {
  RunningTurn other(stub(), TurnOf("tight", ""));
  v1::GenerateRequest request = TurnOf("a", "tight");
  request.set_max_tokens(200);
  const TwinnedTurn turn = Run(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.tokens, RunAlone("a", request).tokens);
  EXPECT_TRUE(turn.rows.empty());
  EXPECT_EQ(turn.summary().code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(turn.summary().error(), HasSubstr("too slow"));
  other.Cancel();
  ExpectNothingIsLeft();
}

class FewTwinBytesTest : public TwinTest {
 protected:
  FewTwinBytesTest() : TwinTest({}, /*session_host_bytes=*/64 << 10) {}
};

TEST_F(FewTwinBytesTest, BuffersCountAsMemoryOfSessions) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_max_tokens(10);
  ExpectWhole(Run(request), 10);
  request.set_max_tokens(1000);
  const TwinnedTurn turn = Run(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.tokens.size(), 1000u);
  EXPECT_FALSE(turn.started.twin().comparable());
  EXPECT_THAT(turn.started.twin().not_comparable_reason(), HasSubstr("the logits of the twin: "));
  EXPECT_EQ(turn.summary().code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(turn.rows.empty());
  ExpectNothingIsLeft();
}

// The turn takes its memory first. With what its prompt leaves, the twin has not enough.
TEST_F(FewTwinBytesTest, ATwinTakesNothingFromItsTurn) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.mutable_input()->set_text(std::string(6000, 'x'));
  request.set_max_tokens(14);
  const TwinnedTurn turn = Run(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.tokens.size(), 14u);
  EXPECT_FALSE(turn.started.twin().comparable());
  EXPECT_EQ(turn.summary().code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(turn.rows.empty());
  ExpectNothingIsLeft();
}

// ---------------------------------------------------------------- calls that end early

TEST_F(TwinTest, ACancelFreesEverything) {
  for (const size_t tokens : {0u, 1u, 5u, 200u}) {
    v1::GenerateRequest request = TurnOf("a", tokens % 2 == 0 ? "b" : "tight");
    request.set_max_tokens(kEndless);
    size_t read = 0;
    const TwinnedTurn turn =
        Run(request, [&](const v1::GenerateResponse& response, grpc::ClientContext* context) {
          read += static_cast<size_t>(response.delta().token_ids_size());
          if (read >= tokens) context->TryCancel();
        });
    EXPECT_EQ(turn.status.error_code(), StatusCode::CANCELLED);
    ExpectNothingIsLeft();
  }
}

TEST_F(TwinTest, ADeadlineFreesEverything) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_max_tokens(kEndless);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  const auto reader = stub().Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::DEADLINE_EXCEEDED);
  ExpectNothingIsLeft();
}

// A call whose client reads the start of the turn and nothing more. gRPC takes 64 KiB from the
// server, then no write ends: the message with the end of the turn waits until the client reads.
class SilentCall {
 public:
  // `narrow`: CompareTest::NarrowStub.
  SilentCall(v1::Longstream::Stub& narrow, v1::GenerateRequest request) {
    // Many bytes for each token.
    request.set_log_probs(true);
    request.set_top_log_probs(20);
    reader_ = narrow.Generate(&context_, request);
    v1::GenerateResponse response;
    EXPECT_TRUE(reader_->Read(&response)) << reader_->Finish().error_message();
    EXPECT_TRUE(response.has_started());
  }
  ~SilentCall() {
    context_.TryCancel();
    v1::GenerateResponse last;
    ReadAll(&last);
    reader_->Finish();
  }
  // Reads the rest of the call, and returns its bytes without the last message.
  size_t ReadAll(v1::GenerateResponse* last) {
    size_t bytes = 0;
    for (v1::GenerateResponse next; reader_->Read(&next); last->Swap(&next)) {
      bytes += last->ByteSizeLong();
    }
    return bytes;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

class SilentTwinClientTest : public TwinTest {
 protected:
  explicit SilentTwinClientTest(const CompareLimits& limits = {},
                                absl::Duration client_timeout = absl::Milliseconds(300),
                                size_t stream_buffer_bytes = 65536)
      : TwinTest(limits, 0, client_timeout, stream_buffer_bytes) {}

  // Fails after a minute.
  void AwaitTurns(const std::string& model, size_t turns) {
    const absl::StatusOr<std::shared_ptr<Engine>> engine = models().Find(model);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const absl::Time give_up = absl::Now() + absl::Minutes(1);
    while ((*engine)->num_turns() != turns && absl::Now() < give_up) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ((*engine)->num_turns(), turns) << model;
  }

  const std::unique_ptr<v1::Longstream::Stub> narrow_ = NarrowStub();
};

// The turn ends with an error, because its stream is full for too long.
TEST_F(SilentTwinClientTest, ATwinEndsWithATurnWhoseClientReadsNothing) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_max_tokens(kEndless);
  {
    const SilentCall call(*narrow_, request);
    AwaitTurns("a", 0);
    AwaitTurns("b", 0);
    CloseAll();
    AwaitNoCaches();
  }
  ExpectNothingIsLeft();
}

// A stream holds a turn of 1000 tokens, but not an endless one.
class SilentClientOfWholeTurnTest : public SilentTwinClientTest {
 protected:
  SilentClientOfWholeTurnTest()
      : SilentTwinClientTest({.twin_limit = absl::Milliseconds(50)}, absl::Minutes(5),
                             size_t{1} << 20) {}
};

// Another turn holds the only session of the twin's model; it pauses, because nobody reads it. The
// twin waits for it no longer than its limit from the end of its turn on, although the call has not
// heard of this end.
TEST_F(SilentClientOfWholeTurnTest, AQueuedTwinEndsWithItsTurn) {
  v1::GenerateRequest endless = TurnOf("tight", "");
  endless.set_max_tokens(kEndless);
  v1::GenerateRequest request = TurnOf("a", "tight");
  request.set_max_tokens(1000);
  {
    const SilentCall other(*narrow_, endless);
    SilentCall call(*narrow_, request);
    AwaitTurns("a", 0);
    AwaitTurns("tight", 1);
    v1::GenerateResponse last;
    EXPECT_GT(call.ReadAll(&last), 200'000u) << "no write was blocked";
    EXPECT_EQ(last.finish().twin().code(), StatusCode::DEADLINE_EXCEEDED);
    EXPECT_EQ(last.finish().usage().generated_tokens(), 1000u);
  }
  ExpectNothingIsLeft();
}

TEST_F(TwinTest, AClosedSessionFreesEverything) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_max_tokens(kEndless);
  const TwinnedTurn turn =
      Run(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (response.has_twin()) CloseAll();
      });
  EXPECT_EQ(turn.status.error_code(), StatusCode::CANCELLED);
  ExpectNothingIsLeft();
}

TEST_F(TwinTest, ADrainEndsBoth) {
  v1::GenerateRequest request = TurnOf("a", "b");
  request.set_max_tokens(kEndless);
  bool drains = false;
  const TwinnedTurn turn =
      Run(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (response.has_twin() && !std::exchange(drains, true)) {
          sessions().Drain(absl::ZeroDuration());
        }
      });
  EXPECT_EQ(turn.status.error_code(), StatusCode::UNAVAILABLE);
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace longstream
