// Decodes protobuf messages from clients, with bounds on memory and depth that protobuf's own
// parser does not have.
#ifndef LONGSTREAM_SERVICE_WIRE_WIRE_DECODER_H_
#define LONGSTREAM_SERVICE_WIRE_WIRE_DECODER_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "service/wire/request_memory.h"

namespace longstream {

// Decodes `bytes` into `message`, a message of proto3 that must be empty. The result is the same as
// that of protobuf's parser, except that unknown fields are skipped and not kept. Counts in
// `charge` the memory that the message takes.
//
// INVALID_ARGUMENT: the bytes are not such a message, or are nested deeper than 100 levels; the
// error names the field and the byte. Maps whose values are messages are not supported. Also
// returns the errors of RequestCharge::Add.
absl::Status DecodeMessage(std::string_view bytes, RequestCharge* charge,
                           google::protobuf::Message* message);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_WIRE_WIRE_DECODER_H_
