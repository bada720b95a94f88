// Some texts come from a plugin, a file or a command line and may be invalid UTF-8. The server must
// send valid UTF-8, because no client can read a message with an invalid protobuf string.
#include "service/server/to_proto.h"

#include <gtest/gtest.h>

#include <string>

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
