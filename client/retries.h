// When a turn that was lost is sent again.
#ifndef LONGSTREAM_CLIENT_RETRIES_H_
#define LONGSTREAM_CLIENT_RETRIES_H_

#include <grpcpp/support/status.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "client/connection.h"
#include "client/interrupt.h"

namespace longstream::client {

// Whether the service has not seen the call. gRPC cancels calls, with this text, that reach a
// server which is just ending. (A turn that somebody has cancelled has another text.)
inline bool NeverBegan(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::CANCELLED &&
         status.error_message() == "CANCELLED";
}

// Whether the server asks for the same request again, a little later: it has google.rpc.RetryInfo
// in its details.
inline bool AsksAgain(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_details().find("google.rpc.RetryInfo") != std::string::npos;
}

// Decides whether a turn that was lost is resumed. A turn that has not started is sent again only
// if that is sure to be right: the server asks for it, or has not seen the call.
class Retries {
 public:
  explicit Retries(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // The call has ended with this error, after these messages.
  bool Allows(const grpc::Status& status, const Generation& generation) {
    if (generation.token_ids.size() > tokens_) {
      tokens_ = generation.token_ids.size();
      is_lost_ = false;
      failures_ = 0;
      pause_ = kFirstPause;
    }
    if (Interrupted()) return false;
    if (generation.started.turn_id().empty() && !AsksAgain(status) && !NeverBegan(status)) {
      return false;
    }
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        break;
      // A server that is killed may look like these, but they may also be the turn's own end.
      case grpc::StatusCode::ABORTED:
      case grpc::StatusCode::INTERNAL:
      case grpc::StatusCode::UNKNOWN:
        if (++failures_ > kMostFailures) return false;
        break;
      case grpc::StatusCode::CANCELLED:
        if (!NeverBegan(status)) return false;
        break;
      default:
        return false;
    }
    const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
    if (!is_lost_) lost_since_ = now;
    is_lost_ = true;
    return now - lost_since_ < timeout_;
  }
  std::chrono::milliseconds Pause() {
    return std::exchange(pause_, std::min(2 * pause_, kLongestPause));
  }

 private:
  static constexpr std::chrono::milliseconds kFirstPause{50};
  static constexpr std::chrono::milliseconds kLongestPause{500};
  static constexpr int kMostFailures = 5;

  const std::chrono::milliseconds timeout_;
  bool is_lost_ = false;
  std::chrono::steady_clock::time_point lost_since_{};  // if is_lost_: no token has come since then
  size_t tokens_ = 0;
  int failures_ = 0;
  std::chrono::milliseconds pause_ = kFirstPause;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_RETRIES_H_
