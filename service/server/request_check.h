// Requests from outside, checked and turned into what the scheduler takes.
//
// Every refusal is INVALID_ARGUMENT (or NOT_FOUND for ids) with one sentence that names the field,
// the value and the limit.
#ifndef LONGSTREAM_SERVICE_SERVER_REQUEST_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_REQUEST_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "longstream/v1/longstream.pb.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/sessions/session.h"

namespace longstream {

inline constexpr uint32_t kMaxTopLogProbs = 20;  // and no more than the vocabulary has
inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;
inline constexpr int kMaxStopIds = 64;

// An id the client chose; nothing where the field is empty.
absl::StatusOr<std::optional<SessionId>> CheckSessionId(const std::string& text,
                                                        std::string_view field);
absl::StatusOr<std::optional<absl::Duration>> CheckIdleTimeout(
    bool present, const google::protobuf::Duration& duration);

// The token ids of an input; none where it is absent. What depends on the session's history is
// looked at by the engine: whether there is room, and what the tokenizer puts before a first text.
struct CheckedInput {
  std::vector<int32_t> tokens;
  std::optional<std::vector<int32_t>> continued;  // TurnRequest::continued_prompt
  bool is_text = false;
};
absl::StatusOr<CheckedInput> CheckInput(const v1::Input& input, const ServedModel& model,
                                        bool parse_special);

absl::StatusOr<TurnRequest> CheckGenerate(const v1::GenerateRequest& request,
                                          const ServedModel& model,
                                          std::shared_ptr<Session> session);
// The first message of an Append, its input excluded unless it is messages. Where the input is, of
// CheckGenerate too, the turn of the session is begun (TurnRequest::holds_turn).
absl::StatusOr<TurnRequest> CheckAppend(const v1::AppendRequest& request, const ServedModel& model,
                                        std::shared_ptr<Session> session);
// A later message of the stream: what belongs to the first is absent, or as it was there.
absl::Status CheckContinuation(const v1::AppendRequest& message, const v1::AppendRequest& first);
absl::StatusOr<TurnRequest> CheckScore(const v1::ScoreRequest& request, const ServedModel& model);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_REQUEST_CHECK_H_
