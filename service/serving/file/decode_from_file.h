// Decodes messages of a session's file, which may come from anybody.
#ifndef LONGSTREAM_SERVICE_SERVING_FILE_DECODE_FROM_FILE_H_
#define LONGSTREAM_SERVICE_SERVING_FILE_DECODE_FROM_FILE_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace longstream {

// Decodes a message, in at most 128 MiB or four times its size. Errors as for DecodeMessage.
absl::Status DecodeFromFile(std::string_view bytes, google::protobuf::Message* message);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FILE_DECODE_FROM_FILE_H_
