// Calls with every field of their requests, in the encodings that take the most memory, and the
// memory that they make a server hold. Link allocation_counter.cc.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_BOUNDED_CALL_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_BOUNDED_CALL_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/service/server/transport/allocation_counter.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {

inline constexpr size_t kSizes[] = {4 << 10, 16 << 10, 256 << 10, 2 << 20};
inline constexpr int64_t kMiB = 1 << 20;

// A field, and the fields that it lies in, from the request on.
using Path = std::vector<const google::protobuf::FieldDescriptor*>;

inline std::string NameOf(const Path& path) {
  std::string name;
  for (const google::protobuf::FieldDescriptor* field : path) name += "." + field->name();
  return name;
}

// Calls `visit` for every field of a message and of the messages in it.
inline void VisitFields(const google::protobuf::Descriptor& type, Path path,
                        const std::function<void(const Path&)>& visit) {
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    path.push_back(field);
    visit(path);
    // A type that holds itself is visited at two levels.
    const auto is_same = [&](const google::protobuf::FieldDescriptor* outer) {
      return outer->message_type() == field->message_type();
    };
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE &&
        !field->is_map() && std::count_if(path.begin(), path.end(), is_same) <= 2) {
      VisitFields(*field->message_type(), path, visit);
    }
    path.pop_back();
  }
}

// A field number that the message does not have.
inline int UnknownNumber(const google::protobuf::Descriptor& type) {
  int number = 1;
  while (type.FindFieldByNumber(number) != nullptr) ++number;
  return number;
}

inline std::string RepeatTo(size_t size, const std::string& part) {
  return wire::Repeat(part, size / part.size() + 1);
}

// JSON texts of about this size, whose values take much memory.
inline std::vector<std::string> JsonTexts(size_t size) {
  return {"[" + RepeatTo(size, "[],") + "0]",          "[" + RepeatTo(size, "0,") + "0]",
          "[" + RepeatTo(size, R"("",)") + "0]",       "[" + RepeatTo(size, R"({"":0},)") + "0]",
          R"({"a":[)" + RepeatTo(size, "{},") + "0]}", std::string(size, '[')};
}

// Encodings of one field, as parts of its message, of about this size.
inline std::vector<std::pair<std::string, std::string>> Encodings(
    const google::protobuf::FieldDescriptor& field, size_t size) {
  const int number = field.number();
  const std::string empty = wire::Bytes(number, "");
  std::vector<std::pair<std::string, std::string>> encodings;
  if (field.is_map()) {
    std::string entries;
    for (uint64_t key = 0; entries.size() < size; ++key) {
      entries += wire::Bytes(number, wire::Number(1, key));
    }
    encodings = {{"empty entries", RepeatTo(size, empty)}, {"entries", entries}};
  } else if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
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
  } else if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
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

// Makes the call, whose server is in this process, and expects that the server holds at most
// `most` bytes for each byte of the request, plus 1 MiB.
inline grpc::Status ExpectBoundedCall(const std::shared_ptr<grpc::Channel>& channel,
                                      const std::string& rpc, const std::string& name,
                                      const std::string& request, int64_t most = 4) {
  const auto size = static_cast<int64_t>(request.size());
  const std::vector<std::string> requests = {request};
  const int64_t before = AllocatedBytes();
  ResetPeak();
  const RawAnswer answer = CallRaw(channel, rpc, requests);
  // The server gets the array of `requests` itself. It counts as the received bytes.
  const int64_t held = PeakAllocatedBytes() - before + size;
  EXPECT_LE(held, most * size + kMiB)
      << rpc << name << ": " << size << " bytes; " << answer.status.error_message();
  return answer.status;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_BOUNDED_CALL_H_
