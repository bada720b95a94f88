// Random bytes must decode to the same message as with protobuf's parser, or be refused by both.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "longstream/v1/longstream.pb.h"
#include "service/wire/wire_decoder.h"
#include "tests/fuzz_trials.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Random = std::mt19937;

size_t Draw(Random& random, size_t limit) { return random() % limit; }

std::string RandomBytes(Random& random, size_t size) {
  std::string bytes(size, '\0');
  std::ranges::generate(bytes, [&] { return static_cast<char>(random()); });
  return bytes;
}

uint64_t RandomNumber(Random& random) {
  const uint64_t bits = static_cast<uint64_t>(random()) << 32 | random();
  return bits >> Draw(random, 64);
}

// Draws an encoded message of this type. Fields are repeated, have wrong types or are unknown.
std::string RandomFields(Random& random, const Descriptor& type, int depth) {
  std::string bytes;
  const size_t count = Draw(random, 5);
  for (size_t i = 0; i < count && type.field_count() > 0; ++i) {
    const auto index = static_cast<int>(Draw(random, static_cast<size_t>(type.field_count())));
    const FieldDescriptor& field = *type.field(index);
    const int number = Draw(random, 10) == 0 ? 100 : field.number();
    if (Draw(random, 20) == 0) {
      const std::string inner = RandomFields(random, type, depth - 1);
      bytes += wire::Tag(number, 3) + (depth > 0 ? inner : "") + wire::Tag(number, 4);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && depth > 0) {
      bytes += wire::Bytes(number, RandomFields(random, *field.message_type(), depth - 1));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      bytes += wire::Bytes(number, std::string(Draw(random, 40), 'x'));
    } else if (Draw(random, 3) == 0) {
      std::string packed;
      for (size_t n = Draw(random, 6); n > 0; --n) packed += wire::Varint(RandomNumber(random));
      bytes += wire::Bytes(number, packed);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      bytes += wire::Tag(number, 5) + RandomBytes(random, 4);
    } else if (Draw(random, 10) == 0) {
      bytes += wire::Tag(number, 1) + RandomBytes(random, 8);
    } else {
      bytes += wire::Number(number, RandomNumber(random));
    }
  }
  return bytes;
}

void Spoil(Random& random, std::string* bytes) {
  for (size_t n = Draw(random, 4); n > 0 && !bytes->empty(); --n) {
    const size_t at = Draw(random, bytes->size());
    switch (Draw(random, 4)) {
      case 0:
        (*bytes)[at] = static_cast<char>(random());
        break;
      case 1:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Draw(random, 8)));
        break;
      case 2:
        bytes->resize(at);
        break;
      default:
        bytes->insert(at, RandomBytes(random, 1 + Draw(random, 3)));
    }
  }
}

// Equal messages have equal texts; the order of a map's entries in the bytes is arbitrary.
std::string TextOf(const Message& message) { return message.DebugString(); }

TEST(WireDecoderFuzzTest, AgreesWithProtobuf) {
  std::vector<const Descriptor*> types;
  const google::protobuf::ServiceDescriptor& service =
      *v1::GenerateRequest::descriptor()->file()->service(0);
  for (int i = 0; i < service.method_count(); ++i) types.push_back(service.method(i)->input_type());
  types.push_back(v1::Model::descriptor());  // has types of fields that no request has
  types.push_back(v1::GenerateResponse::descriptor());
  types.push_back(v1::ScoreResponse::descriptor());

  Random random(7);
  int accepted = 0;
  FuzzTrials trials(20'000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    const Descriptor& type = *types[Draw(random, types.size())];
    std::string bytes = RandomFields(random, type, 5);
    Spoil(random, &bytes);
    const Message* prototype =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
    const std::unique_ptr<Message> expected(prototype->New());
    const std::unique_ptr<Message> message(prototype->New());
    RequestMemory memory(std::numeric_limits<uint64_t>::max());
    RequestCharge charge(&memory, 1 << 20);
    const absl::Status status = DecodeMessage(bytes, &charge, message.get());
    const bool is_message = expected->ParsePartialFromString(bytes);
    ASSERT_EQ(status.ok(), is_message) << type.name() << ": " << status;
    if (!is_message) continue;
    ++accepted;
    expected->DiscardUnknownFields();
    ASSERT_EQ(TextOf(*message), TextOf(*expected)) << type.name();
  }
  EXPECT_GT(accepted, trials.count() / 10);
  EXPECT_LT(accepted, trials.count() * 9 / 10);
}

}  // namespace
}  // namespace longstream
