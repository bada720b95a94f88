#include "client/json/message_json.h"

#include <google/protobuf/util/json_util.h>

#include <stdexcept>

namespace longstream::client {

std::string MessageJson(const google::protobuf::Message& message, bool lines) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = lines;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    throw std::runtime_error("a message cannot be written as JSON");
  }
  return text;
}

}  // namespace longstream::client
