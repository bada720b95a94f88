// Messages of the services as JSON.
#ifndef LONGSTREAM_CLIENT_JSON_MESSAGE_JSON_H_
#define LONGSTREAM_CLIENT_JSON_MESSAGE_JSON_H_

#include <google/protobuf/message.h>

#include <string>

namespace longstream::client {

// Names as in the proto; members are written also where they have their default. `lines`: each
// member has a line. Throws std::runtime_error if the message has a text that is not UTF-8.
std::string MessageJson(const google::protobuf::Message& message, bool lines);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_JSON_MESSAGE_JSON_H_
