// The 128-bit id of a session, written as 32 lower-case hexadecimal digits.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_ID_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_ID_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longstream {

struct SessionId {
  uint64_t high = 0;
  uint64_t low = 0;

  // Parses 32 hexadecimal digits, in upper or lower case. INVALID_ARGUMENT: the text has another
  // form; the message names `field` and the wrong character or length.
  static absl::StatusOr<SessionId> Parse(std::string_view text, std::string_view field);

  // Draws an id from the random source of the operating system, so that it cannot be guessed.
  static SessionId Random();

  std::string ToString() const;

  // kBytes bytes, high half first, so that the order of the bytes is the order of ids.
  static constexpr size_t kBytes = 16;
  std::string Bytes() const;
  // REQUIRES: `bytes` has kBytes bytes.
  static SessionId FromBytes(std::string_view bytes);

  friend auto operator<=>(const SessionId&, const SessionId&) = default;

  template <typename H>
  friend H AbslHashValue(H hash, const SessionId& id) {
    return H::combine(std::move(hash), id.high, id.low);
  }
};

// NOT_FOUND: no session has this id.
absl::Status NoSession(const SessionId& id);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_ID_H_
