// Converts times.
#include "service/server/routing/wire_times.h"

#include <algorithm>
#include <cstdint>

namespace longstream {
namespace {

constexpr int64_t kMostWireSeconds = 315'576'000'000;  // protobuf's own limit, 10 000 years

}  // namespace

absl::Duration TimeFrom(const google::protobuf::Duration& message) {
  constexpr int32_t kMostNanos = 999'999'999;
  const bool is_valid = message.seconds() >= 0 && message.seconds() <= kMostWireSeconds &&
                        message.nanos() >= 0 && message.nanos() <= kMostNanos;
  if (!is_valid) return absl::Seconds(-1);
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

void SetTime(absl::Time time, google::protobuf::Timestamp* message) {
  const int64_t nanoseconds = absl::ToUnixNanos(time);
  message->set_seconds(nanoseconds / 1'000'000'000);
  message->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* message) {
  constexpr absl::Duration kLongest = absl::Seconds(kMostWireSeconds);
  absl::Duration rest = std::clamp(duration, -kLongest, kLongest);
  message->set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
  message->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

}  // namespace longstream
