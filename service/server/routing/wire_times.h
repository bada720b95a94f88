// Times of routes on the wire.
#ifndef LONGSTREAM_SERVICE_SERVER_ROUTING_WIRE_TIMES_H_
#define LONGSTREAM_SERVICE_SERVER_ROUTING_WIRE_TIMES_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace longstream {

// A time that is not valid becomes negative, which every limit refuses.
absl::Duration TimeFrom(const google::protobuf::Duration& message);
// A time below 0 becomes 0, and one that is longer than protobuf's limit this limit.
void SetTime(absl::Duration time, google::protobuf::Duration* message);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_ROUTING_WIRE_TIMES_H_
