// Some texts come from a plugin, a file or a command line and may be invalid UTF-8. The server must
// send valid UTF-8, because no client can read a message with an invalid protobuf string.
#include "service/server/to_proto.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace longstream {
namespace {

constexpr char kBroken[] = "caf\xc3\xa9 \xff\xfe";

// Parses the message as a client does; the parser checks that strings are UTF-8. `text` must begin
// with the valid part of kBroken.
template <typename Message>
testing::AssertionResult Arrives(const Message& message, const std::string& text) {
  Message read;
  if (!read.ParseFromString(message.SerializeAsString())) {
    return testing::AssertionFailure() << "cannot be read";
  }
  if (text.find("caf\xc3\xa9 ") != 0) return testing::AssertionFailure() << "lost: " << text;
  return testing::AssertionSuccess();
}

TEST(ToProto, ReasonsOfABackend) {
  TurnUsage usage;
  usage.recompute_reason = kBroken;
  v1::TurnUsage message;
  ToProto(usage, &message);
  EXPECT_TRUE(Arrives(message, message.recompute_reason()));
}

TEST(ToProto, SourcesOfCaches) {
  TurnUsage usage;
  v1::TurnUsage message;
  ToProto(usage, &message);
  EXPECT_EQ(message.restore_source(), v1::RESTORE_SOURCE_UNSPECIFIED);
  usage.restored_tokens = 5;
  for (const auto& [source, expected] :
       {std::pair{RestoreSource::kStore, v1::RESTORE_SOURCE_STORE},
        std::pair{RestoreSource::kPeer, v1::RESTORE_SOURCE_PEER}}) {
    usage.restore_source = source;
    ToProto(usage, &message);
    EXPECT_EQ(message.restore_source(), expected);
    EXPECT_EQ(message.restored_tokens(), 5u);
  }
}

TEST(ToProto, Durations) {
  constexpr int64_t kLongest = 315'576'000'000;  // seconds, protobuf's limit
  const struct {
    absl::Duration duration;
    int64_t seconds;
    int32_t nanos;
  } cases[] = {
      {absl::ZeroDuration(), 0, 0},
      {absl::Nanoseconds(1), 0, 1},
      {absl::Nanoseconds(1) / 4, 0, 0},
      {absl::Seconds(1) - absl::Nanoseconds(1), 0, 999'999'999},
      {-absl::Milliseconds(1500), -1, -500'000'000},
      // More nanoseconds than 64 bits hold.
      {absl::Seconds(10'000'000'000) + absl::Nanoseconds(7), 10'000'000'000, 7},
      {absl::Seconds(kLongest), kLongest, 0},
      {absl::Seconds(kLongest) + absl::Nanoseconds(1), kLongest, 0},
      {absl::InfiniteDuration(), kLongest, 0},
      {-absl::InfiniteDuration(), -kLongest, 0},
  };
  for (const auto& [duration, seconds, nanos] : cases) {
    SessionView view;
    view.idle_timeout = duration;
    v1::Session session;
    ToProto(view, &session);
    EXPECT_FALSE(session.has_ttl());
    view.ttl = duration;
    ToProto(view, &session);
    EXPECT_EQ(session.ttl().seconds(), seconds) << duration;
    EXPECT_EQ(session.ttl().nanos(), nanos) << duration;
    EXPECT_EQ(session.idle_timeout().seconds(), seconds) << duration;
    EXPECT_EQ(session.idle_timeout().nanos(), nanos) << duration;
  }
}

TEST(ToProto, NamesOfModels) {
  SessionView view;
  view.model = kBroken;
  v1::Session session;
  ToProto(view, &session);
  EXPECT_TRUE(Arrives(session, session.model()));

  ModelStatus status;
  status.name = kBroken;
  v1::Model model;
  ToProto(status, &model);
  EXPECT_TRUE(Arrives(model, model.name()));
}

}  // namespace
}  // namespace longstream
