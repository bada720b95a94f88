// Checks the fields of requests and converts them to plain values. For inputs see turn_input.h.
//
// Unless a function says otherwise, every error is INVALID_ARGUMENT, or UNIMPLEMENTED for a value
// that is not supported yet. Its message names the field, the value and the limit.
#ifndef LONGSTREAM_SERVICE_SERVER_REQUEST_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_REQUEST_CHECK_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "longstream/v1/longstream.pb.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/serving/session_manager.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_state.h"

namespace longstream {

// The refusal of a request. `parts`: the field and the limit that it breaks.
template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

inline constexpr uint32_t kMaxTopLogProbs = 20;  // a vocabulary with fewer tokens lowers this limit
inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;
inline constexpr int kMaxStopIds = 64;

// The memory that CheckGenerate needs for each bias, in two trees.
inline constexpr uint64_t kCheckedBiasBytes = 128;

// Returns the id that the client chose, or nothing if the field is empty.
absl::StatusOr<std::optional<SessionId>> CheckSessionId(const std::string& text,
                                                        std::string_view field);
// Returns the duration of the field, or nothing if it is not present. Its limits depend on the
// server's options, and are not checked.
absl::StatusOr<std::optional<absl::Duration>> CheckDuration(
    const char* field, bool present, const google::protobuf::Duration& duration);

// Returns how many elements a page has.
absl::StatusOr<size_t> CheckPageSize(int page_size);
// Returns the number with which a list of turns goes on.
absl::StatusOr<uint64_t> CheckTurnsToken(const std::string& token);

absl::StatusOr<Recompute> CheckRecompute(v1::Recompute value);
absl::StatusOr<Durability> CheckDurability(v1::Durability value);

// Returns the turn's id, or nothing if the field is empty. INVALID_ARGUMENT, too: there is `resume`
// without a turn_id.
absl::StatusOr<std::optional<SessionId>> CheckTurnId(const v1::GenerateRequest& request);
// FAILED_PRECONDITION: the ids in `resume` cannot be those of an answer to the request. The message
// names the index.
absl::Status CheckResume(const v1::Resume& resume, const TurnRequest& request,
                         uint32_t vocabulary_size);

// INVALID_ARGUMENT: an id of the list `field` is outside the vocabulary.
absl::Status CheckTokenId(const char* field, int64_t index, int64_t id, uint32_t vocabulary_size);

// Check all fields except the input, which depends on the session. CheckAppend checks the first
// message.
absl::StatusOr<TurnRequest> CheckGenerate(const v1::GenerateRequest& request,
                                          const ServedModel& model);
absl::StatusOr<TurnRequest> CheckAppend(const v1::AppendRequest& request);
absl::StatusOr<TurnRequest> CheckScore(const v1::ScoreRequest& request, const ServedModel& model);

// Checks a later message of an Append: the fields of the first message must be absent or equal.
absl::Status CheckContinuation(const v1::AppendRequest& message, const v1::AppendRequest& first);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_REQUEST_CHECK_H_
