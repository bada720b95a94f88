// Decoded messages, and the errors of bytes that are no message. wire_decoder_fuzz_test.cc compares
// the decoder with protobuf's own.
#include "service/wire/wire_decoder.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "longstream/v1/longstream.pb.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// Decodes a message as if `received_bytes` bytes of it had been received.
absl::Status Decode(const std::string& bytes, google::protobuf::Message* message,
                    uint64_t received_bytes = 1 << 20) {
  RequestMemory memory(kNoLimit);
  RequestCharge charge(&memory, received_bytes);
  return DecodeMessage(bytes, &charge, message);
}

TEST(WireDecoderTest, MalformedBytesAreNamed) {
  const std::string id = wire::Bytes(1, "s");
  struct Case {
    const char* name;
    std::string bytes;
    const char* error;
  };
  const Case cases[] = {
      {"tag 0", std::string(1, '\0'), "malformed at byte 0: no field begins here"},
      {"no such type", id + wire::Tag(1, 6), "malformed at byte 3: no field begins here"},
      {"endless tag", id + "\xff\xff\xff\xff\xff\xff", "malformed at byte 3: no field begins here"},
      {"end of a group that has not begun", id + wire::Tag(1, 4),
       "malformed at byte 3: the value of unknown field 1 is cut off or nested too deep"},
      {"text longer than the message", wire::Tag(1, 2) + "\x05" + "abcd",
       "session_id: malformed at byte 1: the length exceeds the message"},
      {"text that is not UTF-8", wire::Bytes(1, "ab\xff"),
       "session_id: malformed at byte 4: the text is not UTF-8"},
      {"message longer than the message around it",
       id + wire::Bytes(2, wire::Bytes(2, wire::Tag(1, 2) + "\x09")),
       "input.tokens.ids: malformed at byte 8: the length exceeds the message"},
      {"packed number that is cut off", id + wire::Bytes(2, wire::Bytes(2, wire::Bytes(1, "\x80"))),
       "input.tokens.ids: malformed at byte 9: the number is cut off"},
      {"number that is cut off", wire::Tag(7, 0) + "\xff",
       "max_tokens: malformed at byte 1: the number is cut off"},
      {"map entry that is cut off", wire::Bytes(5, wire::Bytes(8, "\x08")),
       "sampling.logit_bias: malformed at byte 2: the entry is cut off"},
      {"unknown field that is cut off", wire::Tag(1000, 2) + "\x09",
       "malformed at byte 0: the value of unknown field 1000 is cut off"},
      {"group without an end", wire::Tag(1000, 3) + id,
       "malformed at byte 0: the value of unknown field 1000 is cut off"},
      {"group with another end", wire::Tag(1000, 3) + wire::Tag(999, 4),
       "malformed at byte 0: the value of unknown field 1000 is cut off"},
  };
  for (const Case& c : cases) {
    v1::GenerateRequest request;
    const absl::Status status = Decode(c.bytes, &request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.name;
    EXPECT_EQ(status.message().find(c.error), 0u) << c.name << ": " << status;
    EXPECT_FALSE(v1::GenerateRequest().ParseFromString(c.bytes)) << c.name;
  }
}

TEST(WireDecoderTest, FieldsAreReadAsProtobufReadsThem) {
  const std::string bytes = wire::Bytes(1, "first") + wire::Bytes(1, "last") +
                            // Two encodings of a list of numbers, and an int32 of ten bytes.
                            wire::Bytes(6, wire::Bytes(2, "\x01\x02") + wire::Number(2, 3) +
                                               wire::Number(2, static_cast<uint64_t>(-4))) +
                            // The second value of a oneof replaces the first.
                            wire::Bytes(2, wire::Bytes(1, "text")) +
                            wire::Bytes(2, wire::Bytes(2, wire::Bytes(1, "\x07"))) +
                            // A field whose encoding is that of another type is unknown.
                            wire::Bytes(7, "abc") + wire::Number(4, 99) +
                            wire::Bytes(5, wire::Bytes(8, wire::Number(1, 5)) + wire::Bytes(8, "") +
                                               wire::Number(9, 1ull << 63));
  v1::GenerateRequest request;
  ASSERT_TRUE(Decode(bytes, &request).ok());
  EXPECT_EQ(request.session_id(), "last");
  EXPECT_EQ(request.stop().token_ids_size(), 4);
  EXPECT_EQ(request.stop().token_ids(3), -4);
  EXPECT_EQ(request.input().tokens().ids_size(), 1);
  EXPECT_EQ(request.max_tokens(), 0u);
  EXPECT_EQ(static_cast<int>(request.on_abort()), 99);
  EXPECT_EQ(request.sampling().logit_bias_size(), 2);
  EXPECT_EQ(request.sampling().seed(), 1ull << 63);
  EXPECT_FALSE(request.has_expected_position());

  v1::GenerateRequest expected;
  ASSERT_TRUE(expected.ParseFromString(bytes));
  expected.DiscardUnknownFields();
  EXPECT_EQ(request.DebugString(), expected.DebugString());
}

TEST(WireDecoderTest, UnknownFieldsAreNotKept) {
  v1::GetSessionRequest request;
  const std::string group = wire::Tag(20, 3) + wire::Number(1, 1) + wire::Tag(20, 4);
  const std::string bytes = wire::Bytes(1, "id") + wire::Number(2, 5) + wire::Bytes(3, "abc") +
                            wire::Tag(4, 5) + "1234" + wire::Tag(5, 1) + "12345678" + group;
  ASSERT_TRUE(Decode(bytes, &request).ok());
  EXPECT_EQ(request.SerializeAsString(), wire::Bytes(1, "id"));
}

std::string NestedLists(int levels) {
  std::string value;
  for (int i = 0; i < levels; ++i) value = wire::Bytes(6, wire::Bytes(1, value));
  return value;
}

TEST(WireDecoderTest, DepthIsBounded) {
  google::protobuf::Value value;  // each list has two levels of messages
  EXPECT_TRUE(Decode(NestedLists(50), &value).ok());
  const absl::Status status = Decode(NestedLists(51), &value);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("nested deeper than 100 levels"), std::string::npos) << status;

  v1::GetSessionRequest request;
  const auto groups = [](size_t levels) {
    return wire::Repeat(wire::Tag(9, 3), levels) + wire::Repeat(wire::Tag(9, 4), levels);
  };
  EXPECT_TRUE(Decode(groups(100), &request).ok());
  EXPECT_FALSE(Decode(groups(101), &request).ok());
  EXPECT_FALSE(Decode(groups(1'000'000), &request).ok());
}

// The decoder would not count the memory of a message in a map.
TEST(WireDecoderTest, MapsOfMessagesAreRefused) {
  google::protobuf::Struct object;
  const absl::Status status = Decode(wire::Bytes(1, wire::Bytes(1, "key")), &object);
  EXPECT_EQ(status.message(), "fields: malformed at byte 0: a map of messages is not supported");
}

TEST(WireDecoderTest, ElementsAreBounded) {
  struct Case {
    const char* name;
    std::string element;
    const char* field;
  };
  const Case cases[] = {
      {"stop strings", wire::Bytes(6, wire::Bytes(1, "")), "stop.strings: "},
      {"messages", wire::Bytes(2, wire::Bytes(3, wire::Bytes(1, ""))), "input.messages.messages: "},
      {"biases", wire::Bytes(5, wire::Bytes(8, "")), "sampling.logit_bias: "},
      {"a text again and again", wire::Bytes(1, ""), "session_id: "},
      {"a message again and again", wire::Bytes(2, wire::Bytes(1, "")), "input.text: "},
  };
  for (const Case& c : cases) {
    v1::GenerateRequest request;
    const std::string bytes = wire::Repeat(c.element, 100'000);
    const absl::Status status = Decode(bytes, &request, bytes.size());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.name;
    EXPECT_EQ(status.message().find(c.field), 0u) << c.name << ": " << status;
    EXPECT_NE(status.message().find("it has too many elements for its size"), std::string::npos)
        << status;
  }
}

// A prompt of a million tokens is no attack: most ids take two or three bytes.
TEST(WireDecoderTest, LongPromptsOfTokensAreAccepted) {
  std::string ids;
  for (uint64_t i = 0; i < 1'000'000; ++i) ids += wire::Varint(20'000 + i % 100'000);
  const std::string bytes = wire::Bytes(2, wire::Bytes(2, wire::Bytes(1, ids)));
  v1::GenerateRequest request;
  ASSERT_TRUE(Decode(bytes, &request, bytes.size()).ok());
  EXPECT_EQ(request.input().tokens().ids_size(), 1'000'000);
  EXPECT_EQ(request.input().tokens().ids(123'456), 20'000 + 23'456);
}

}  // namespace
}  // namespace longstream
