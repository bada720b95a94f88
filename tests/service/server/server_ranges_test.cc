// Both ends of the range of each field that a request may set, and the values just beyond.
#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/server/request_check.h"
#include "service/server/turn_reactor.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;

constexpr float kLeast = std::numeric_limits<float>::denorm_min();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr int32_t kLowest32 = std::numeric_limits<int32_t>::min();
constexpr int32_t kHighest32 = std::numeric_limits<int32_t>::max();
constexpr uint32_t kHighestU32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kHighestU64 = std::numeric_limits<uint64_t>::max();

float Above(float value) { return std::nextafter(value, kInfinite); }
float Below(float value) { return std::nextafter(value, -kInfinite); }

using Change = std::function<void(v1::GenerateRequest*)>;

template <typename Set>
Change OfSampling(Set set) {
  return [set](v1::GenerateRequest* request) { set(request->mutable_sampling()); };
}
template <typename Set>
Change OfStop(Set set) {
  return [set](v1::GenerateRequest* request) { set(request->mutable_stop()); };
}
Change Bias(int32_t id, float bias) {
  return OfSampling([=](v1::Sampling* s) { (*s->mutable_logit_bias())[id] = bias; });
}
Change StopStrings(int count, size_t bytes) {
  return OfStop([=](v1::StopRule* stop) {
    for (int i = 0; i < count; ++i) stop->add_strings(std::string(bytes, '\x7f'));
  });
}
Change StopIds(int count, int32_t id) {
  return OfStop([=](v1::StopRule* stop) {
    for (int i = 0; i < count; ++i) stop->add_token_ids(id);
  });
}
Change MinTokens(uint32_t least, uint32_t most) {
  return [=](v1::GenerateRequest* request) {
    request->mutable_stop()->set_min_tokens(least);
    request->set_max_tokens(most);
  };
}
Change TopLogProbs(uint32_t top) {
  return [=](v1::GenerateRequest* request) {
    request->set_log_probs(true);
    request->set_top_log_probs(top);
  };
}

#define SAMPLING(field, value) OfSampling([](v1::Sampling* s) { s->set_##field(value); })

// Values at an end of a range: the turn must end with OK.
std::vector<std::pair<const char*, Change>> Accepted() {
  return {
      {"temperature 0", SAMPLING(temperature, 0)},
      {"temperature least", SAMPLING(temperature, kLeast)},
      {"temperature most", SAMPLING(temperature, 1000)},
      {"top_k 0", SAMPLING(top_k, 0)},
      {"top_k most", SAMPLING(top_k, kHighest32)},
      {"top_p least", SAMPLING(top_p, kLeast)},
      {"top_p most", SAMPLING(top_p, 1)},
      {"min_p 0", SAMPLING(min_p, 0)},
      {"min_p least", SAMPLING(min_p, kLeast)},
      {"min_p most", SAMPLING(min_p, 1)},
      {"repetition_penalty least", SAMPLING(repetition_penalty, kLeast)},
      {"repetition_penalty most", SAMPLING(repetition_penalty, kMost)},
      {"presence_penalty least", SAMPLING(presence_penalty, -2)},
      {"presence_penalty most", SAMPLING(presence_penalty, 2)},
      {"frequency_penalty least", SAMPLING(frequency_penalty, -2)},
      {"frequency_penalty most", SAMPLING(frequency_penalty, 2)},
      {"seed 0", SAMPLING(seed, 0)},
      {"seed most", SAMPLING(seed, kHighestU64)},
      {"logit_bias least", Bias(0, -100)},
      {"logit_bias most", Bias(255, 100)},
      {"stop.strings most", StopStrings(kMaxStopStrings, kMaxStopStringBytes)},
      {"stop.token_ids most", StopIds(kMaxStopIds, 255)},
      {"stop.token_ids 0", StopIds(1, 0)},
      {"min_tokens = max_tokens", MinTokens(3, 3)},
      {"min_tokens most", MinTokens(kHighestU32, 0)},
      {"max_tokens least", MinTokens(0, 1)},
      {"max_tokens most", MinTokens(0, kHighestU32)},
      {"both most", MinTokens(kHighestU32, kHighestU32)},
      {"top_log_probs 0", TopLogProbs(0)},
      {"top_log_probs most", TopLogProbs(20)},
      {"priority last", [](auto* r) { r->set_priority(v1::PRIORITY_HIGH); }},
      {"on_abort last", [](auto* r) { r->set_on_abort(v1::ON_ABORT_KEEP); }},
      {"expected_position 0", [](auto* r) { r->set_expected_position(0); }},
  };
}

struct Refused {
  Change change;
  const char* message;  // the whole message of INVALID_ARGUMENT
};

// Values just beyond a range, and the ends of the field's type.
std::vector<Refused> RefusedOnes() {
  return {
      {SAMPLING(temperature, -kLeast), "sampling.temperature: expected 0 ... 1000, found -1e-45"},
      {SAMPLING(temperature, Above(1000)),
       "sampling.temperature: expected 0 ... 1000, found 1000.00006"},
      {SAMPLING(temperature, kInfinite), "sampling.temperature: expected 0 ... 1000, found inf"},
      {SAMPLING(top_k, -1), "sampling.top_k: expected 0 or more, found -1"},
      {SAMPLING(top_k, kLowest32), "sampling.top_k: expected 0 or more, found -2147483648"},
      {SAMPLING(top_p, 0), "sampling.top_p: expected a number above 0 and at most 1, found 0"},
      {SAMPLING(top_p, Above(1)),
       "sampling.top_p: expected a number above 0 and at most 1, found 1.0000001"},
      {SAMPLING(min_p, -kLeast), "sampling.min_p: expected 0 ... 1, found -1e-45"},
      {SAMPLING(min_p, Above(1)), "sampling.min_p: expected 0 ... 1, found 1.0000001"},
      {SAMPLING(repetition_penalty, -kLeast),
       "sampling.repetition_penalty: expected a finite number above 0, found -1e-45"},
      {SAMPLING(repetition_penalty, kInfinite),
       "sampling.repetition_penalty: expected a finite number above 0, found inf"},
      {SAMPLING(presence_penalty, Below(-2)),
       "sampling.presence_penalty: expected -2 ... 2, found -2.0000002"},
      {SAMPLING(presence_penalty, Above(2)),
       "sampling.presence_penalty: expected -2 ... 2, found 2.0000002"},
      {SAMPLING(frequency_penalty, Below(-2)),
       "sampling.frequency_penalty: expected -2 ... 2, found -2.0000002"},
      {SAMPLING(frequency_penalty, Above(2)),
       "sampling.frequency_penalty: expected -2 ... 2, found 2.0000002"},
      {Bias(0, Below(-100)), "sampling.logit_bias[0]: expected -100 ... 100, found -100.00001"},
      {Bias(0, Above(100)), "sampling.logit_bias[0]: expected -100 ... 100, found 100.00001"},
      {Bias(256, 0), "sampling.logit_bias: token id 256 is outside the vocabulary of 256"},
      {Bias(kLowest32, 0),
       "sampling.logit_bias: token id -2147483648 is outside the vocabulary of 256"},
      {StopStrings(17, 1), "stop.strings: at most 16, found 17"},
      {StopStrings(1, 257), "stop.strings: expected 1 ... 256 bytes each, found 257"},
      {StopIds(65, 0), "stop.token_ids: at most 64, found 65"},
      {StopIds(1, kHighest32),
       "stop.token_ids[0]: token id 2147483647 is outside the vocabulary of 256"},
      {MinTokens(kHighestU32, kHighestU32 - 1),
       "stop.min_tokens: 4294967295 is more than max_tokens, 4294967294"},
      {TopLogProbs(kHighestU32), "top_log_probs: expected 0 ... 20, found 4294967295"},
      {[](auto* r) { r->set_priority(static_cast<v1::Priority>(4)); }, "priority: unknown value 4"},
      {[](auto* r) { r->set_priority(static_cast<v1::Priority>(kLowest32)); },
       "priority: unknown value -2147483648"},
      {[](auto* r) { r->set_on_abort(static_cast<v1::OnAbort>(kHighest32)); },
       "on_abort: unknown value 2147483647"},
  };
}

#undef SAMPLING

class RangesTest : public ServerTest {
 protected:
  RangesTest() : ServerTest(R"({"context_limit": 64})") {}

  Generated With(const Change& change) {
    v1::GenerateRequest request = Request(Open());
    change(&request);
    return Generate(request);
  }
};

TEST_F(RangesTest, BothEndsAreServed) {
  for (const auto& [name, change] : Accepted()) {
    const Generated generated = With(change);
    EXPECT_TRUE(generated.status.ok()) << name << ": " << generated.status.error_message();
    EXPECT_FALSE(generated.tokens.empty()) << name;
    for (const v1::Delta& delta : generated.deltas) {
      for (const v1::TokenLogProb& token : delta.log_probs()) {
        EXPECT_TRUE(std::isfinite(token.log_prob())) << name;
      }
    }
  }
}

TEST_F(RangesTest, TheNextValueIsRefusedByName) {
  for (const Refused& refused : RefusedOnes()) {
    const grpc::Status status = With(refused.change).status;
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << refused.message;
    EXPECT_EQ(status.error_message(), refused.message);
  }
}

TEST_F(RangesTest, TheLargestExpectedPosition) {
  const Generated generated = With([](auto* r) { r->set_expected_position(kHighestU64); });
  EXPECT_EQ(generated.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(generated.status.error_message().find("the request expects 18446744073709551615"),
            std::string::npos)
      << generated.status.error_message();
}

TEST_F(RangesTest, TowardsZeroTheTemperatureDrawsTheMostProbableToken) {
  const auto draw = [this](float temperature, int32_t top_k) {
    return With([=](v1::GenerateRequest* request) {
             request->set_max_tokens(50);
             request->mutable_sampling()->set_temperature(temperature);
             request->mutable_sampling()->set_top_k(top_k);
             // Logits far from 0 overflow first.
             for (int32_t id = 0; id < 256; ++id) {
               (*request->mutable_sampling()->mutable_logit_bias())[id] = id % 2 == 0 ? 90 : -90;
             }
           })
        .tokens;
  };
  const std::vector<int32_t> greedy = draw(0, 0);
  ASSERT_EQ(greedy.size(), 50u);
  for (const float temperature : {1e-30f, 1e-37f, 1e-38f, 1e-40f, kLeast}) {
    EXPECT_EQ(draw(temperature, 0), greedy) << temperature;
    EXPECT_EQ(draw(temperature, 40), greedy) << temperature;
  }
}

// Beyond 1e-6 and 1e6 a stronger repetition penalty changes nothing, and does not overflow.
TEST_F(RangesTest, ExtremeRepetitionPenalties) {
  const auto draw = [this](float temperature, float penalty) {
    return With([=](v1::GenerateRequest* request) {
             request->set_max_tokens(50);
             request->mutable_sampling()->set_temperature(temperature);
             request->mutable_sampling()->set_repetition_penalty(penalty);
           })
        .tokens;
  };
  for (const float temperature : {0.0f, 1.0f}) {
    for (const auto& [extreme, end] : {std::pair(kLeast, 1e-6f), std::pair(kMost, 1e6f)}) {
      EXPECT_EQ(draw(temperature, extreme), draw(temperature, end)) << temperature << " " << end;
      EXPECT_EQ(draw(temperature, extreme).size(), 50u);
    }
  }
}

TEST_F(RangesTest, PageSizes) {
  Open();
  const auto list = [this](int32_t page_size) {
    grpc::ClientContext context;
    v1::ListSessionsRequest request;
    request.set_page_size(page_size);
    v1::ListSessionsResponse response;
    return stub().ListSessions(&context, request, &response);
  };
  for (const int32_t size : {0, 1, 1000}) EXPECT_TRUE(list(size).ok()) << size;
  for (const int32_t size : {-1, 1001, kLowest32, kHighest32}) {
    EXPECT_EQ(list(size).error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(list(size).error_message(),
              "page_size: expected 0 ... 1000, found " + std::to_string(size));
  }
}

TEST_F(RangesTest, IdleTimeouts) {
  constexpr int64_t kDay = 24 * 60 * 60;
  const struct {
    int64_t seconds;
    int32_t nanos;
    bool accepted;
  } cases[] = {
      {0, 1, true},
      {kDay, 0, true},
      {kDay - 1, 999'999'999, true},
      {0, 0, false},
      {0, -1, false},
      {kDay, 1, false},
      {-kDay, 0, false},
      {-1, 0, false},
      {1, -1, false},
      {-1, 1, false},
      {1, std::numeric_limits<int32_t>::min(), false},
      {1, kHighest32, false},
      {std::numeric_limits<int64_t>::min(), 0, false},
      {std::numeric_limits<int64_t>::max(), 0, false},
      {315'576'000'000, 999'999'999, false},
  };
  for (const auto& [seconds, nanos, accepted] : cases) {
    v1::OpenSessionRequest request;
    request.mutable_idle_timeout()->set_seconds(seconds);
    request.mutable_idle_timeout()->set_nanos(nanos);
    v1::Session session;
    grpc::ClientContext context;
    const grpc::Status status = stub().OpenSession(&context, request, &session);
    EXPECT_EQ(status.ok(), accepted) << seconds << " " << nanos << " " << status.error_message();
    if (!accepted) {
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
      EXPECT_EQ(status.error_message().rfind("idle_timeout: ", 0), 0u) << status.error_message();
    } else {
      EXPECT_EQ(session.idle_timeout().seconds(), seconds);
      EXPECT_EQ(session.idle_timeout().nanos(), nanos);
    }
  }
}

// The raw deadline of a call is a moment of one of gRPC's clocks.
TEST(DeadlineFrom, BothEndsOfGrpcTimeout) {
  constexpr int64_t kHour = 3600;
  const int64_t seconds[] = {
      -1, 0, 1, kHour, 2'562'047 * kHour, 2'562'048 * kHour, 99'999'999 * kHour};
  for (const gpr_clock_type clock : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    for (const int64_t wanted : seconds) {
      const gpr_timespec deadline =
          gpr_time_add(gpr_now(clock), gpr_time_from_seconds(wanted, GPR_TIMESPAN));
      const absl::Duration left = DeadlineFrom(deadline) - MonotonicTime::Now();
      EXPECT_LE(left, absl::Seconds(wanted) + absl::Milliseconds(1)) << wanted;
      EXPECT_GT(left, absl::Seconds(wanted) - absl::Seconds(10)) << wanted;
    }
    EXPECT_EQ(DeadlineFrom(gpr_inf_future(clock)), MonotonicTime::InfiniteFuture());
    EXPECT_LT(DeadlineFrom(gpr_inf_past(clock)), MonotonicTime::Now());
  }
}

}  // namespace
}  // namespace longstream
