// When a turn that was lost is sent again. The Python package has the same rules
// (client/python/longstream/retries.py).
#ifndef LONGSTREAM_CLIENT_ERRORS_RETRIES_H_
#define LONGSTREAM_CLIENT_ERRORS_RETRIES_H_

#include <grpcpp/support/status.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "client/errors/error_details.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

// Whether the service has not seen the call. gRPC cancels calls, with this text, that reach a
// server which is just ending. (A turn that somebody has cancelled has another text.)
inline bool NeverBegan(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::CANCELLED &&
         status.error_message() == "CANCELLED";
}

// Whether the service may have done what the call asks for although the call has failed.
inline bool MayHaveBegun(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

// A part of the error of a model that could not be loaded.
inline constexpr char kNotLoaded[] = " could not be loaded: ";

// Whether the error is that of a model that could not be loaded, which cannot pass by itself. (A
// model that has lost its device is served again when the server was started again, or by another
// replica.)
inline bool SaysModelWasNotLoaded(const grpc::Status& status, const v1::ListModelsResponse& known) {
  const std::string message = status.error_message();
  return std::any_of(known.models().begin(), known.models().end(), [&](const v1::Model& model) {
    return model.state() == v1::MODEL_STATE_FAILED &&
           message.find("model " + model.name() + kNotLoaded) != std::string::npos;
  });
}

// Decides whether a turn that was lost is sent again, and when. A turn has an id, so this is safe
// whatever became of the call: a turn that runs goes on, and one that has ended is read again.
class Retries {
 public:
  // `timeout`: how long after the last token.
  explicit Retries(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // The call has ended with this error, and so many tokens of the turn have arrived. Returns the
  // pause before the next call. Absent: the turn has failed.
  std::optional<std::chrono::milliseconds> PauseAfter(const grpc::Status& status, size_t tokens) {
    if (tokens > tokens_) {
      tokens_ = tokens;
      lost_since_ = std::nullopt;
      failures_ = 0;
      bound_ = kFirstBound;
    }
    if (!MayPass(status)) return std::nullopt;
    const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
    if (!lost_since_.has_value()) lost_since_ = now;
    const auto lost = std::chrono::duration_cast<std::chrono::milliseconds>(now - *lost_since_);
    if (lost >= timeout_) return std::nullopt;
    // Clients that have lost the same server come back at different times.
    const std::chrono::milliseconds bound =
        std::exchange(bound_, std::min(2 * bound_, kLongestBound));
    const std::chrono::milliseconds drawn{
        std::uniform_int_distribution<int64_t>(bound.count() / 2, bound.count())(random_)};
    const std::optional<std::chrono::milliseconds> asked = RetryDelay(status);
    if (!asked.has_value()) return drawn;
    // A server that says when it wants the call again gets it no earlier.
    const std::chrono::milliseconds pause = std::max(drawn, *asked);
    if (lost + pause > timeout_) return std::nullopt;
    return pause;
  }

 private:
  static constexpr std::chrono::milliseconds kFirstBound{50};
  static constexpr std::chrono::milliseconds kLongestBound{500};
  static constexpr int kMostFailures = 5;

  bool MayPass(const grpc::Status& status) {
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        return true;
      // A server that is killed may look like these, but they may also be the turn's own end.
      case grpc::StatusCode::ABORTED:
      case grpc::StatusCode::INTERNAL:
      case grpc::StatusCode::UNKNOWN:
        return ++failures_ <= kMostFailures;
      default:
        return NeverBegan(status);
    }
  }

  const std::chrono::milliseconds timeout_;
  // The time of the first error behind the last token.
  std::optional<std::chrono::steady_clock::time_point> lost_since_;
  size_t tokens_ = 0;
  int failures_ = 0;
  std::chrono::milliseconds bound_ = kFirstBound;  // of the next pause
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_ERRORS_RETRIES_H_
