// Converts turns to the bytes of the store's rows and back.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_TURN_CODEC_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_TURN_CODEC_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/turn/answer.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_journal.h"
#include "service/models/served_model.h"
#include "service/sessions/feed.h"
#include "service/sessions/session_state.h"
#include "service/sessions/store/log_records.h"

namespace longstream {

// The properties that a model must have in common with the one that ran a turn.
struct ModelIdentity {
  uint64_t fingerprint = 0;
  uint64_t tokenizer = 0;
  std::string kernels;

  static ModelIdentity Of(const ServedModel& model);
  // Whether caches of one model fit the other.
  bool HasCachesOf(const ModelIdentity& other) const {
    return tokenizer == other.tokenizer && fingerprint == other.fingerprint;
  }
};

// The parts of a started turn that are needed to run it again, or to restore its session.
struct LoggedStart {
  TurnKind kind = TurnKind::kGenerate;
  uint64_t start_position = 0;
  SamplingParams sampling;
  StopParams stop;
  bool drawn_id = false;
  ModelIdentity model;
  std::optional<LoggedMessages> messages;
};

// A committed turn.
struct LoggedResult {
  std::vector<int32_t> tokens;  // the prompt, then the generated tokens
  uint64_t prompt_tokens = 0;
  uint64_t feed_begin = 0;
  std::vector<FeedRun> feed;
  TextTail tail;
  uint64_t lowest_rewind = 0;
  TurnEnd end;
  std::shared_ptr<const Answer> answer;  // of a Generate
  std::string request_digest;            // of an Append; its row may have none
};

// The parts of a committed turn that a list of turns shows.
struct LoggedSummary {
  FinishReason reason = FinishReason::kNone;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
};

std::string EncodeStart(const TurnRequest& request, const StartedEvent& started, bool drawn_id,
                        const ModelIdentity& model);
// `digest`: of the request.
std::string EncodeResult(const EndedTurn& ended, TurnKind kind, const std::string& digest);

// DATA_LOSS: the bytes are not those of a turn.
absl::StatusOr<LoggedStart> DecodeStart(const std::string& bytes);
// `start`: of the same turn. `position`: of the session after the turn.
absl::StatusOr<LoggedResult> DecodeResult(const std::string& bytes, const LoggedStart& start,
                                          uint64_t position);
// The same, but without tokens, feed and answer.
absl::StatusOr<LoggedSummary> DecodeSummary(const std::string& bytes, const LoggedStart& start,
                                            uint64_t position);

// The properties of a session that its row has for this program.
struct LoggedProperties {
  // The session has returned to a position within a committed turn. Later turns add to the tokens
  // before it.
  struct Cut {
    store::TurnNumber turn = store::kNoTurn;
    uint64_t position = 0;
  };

  absl::Duration idle_timeout;
  // That the client has named. Absent: the server's, as it is at each turn.
  std::optional<absl::Duration> ttl = std::nullopt;
  Recompute recompute = Recompute::kExact;
  std::string origin;
  std::string alias;      // by which the session was opened; empty: by its model
  std::vector<Cut> cuts;  // one for each turn at most
  // The model that the session was forked onto or moved to. Turns of its history may be those of
  // another one.
  std::optional<ModelIdentity> model;
  store::TurnNumber model_head = store::kNoTurn;  // its last turn at that moment
  bool has_moved = false;                         // to a version of its model; otherwise forked

  // The session is forked onto this model, or moves to this version of its model. `head`: its last
  // turn.
  void GoOnWith(ModelIdentity other, store::TurnNumber head, bool moves) {
    model = std::move(other);
    model_head = head;
    has_moved = moves;
  }
  // The position at which the turn is cut; absent: it is not cut.
  std::optional<uint64_t> CutOf(store::TurnNumber turn) const;
};
std::string EncodeProperties(const LoggedProperties& properties);
absl::StatusOr<LoggedProperties> DecodeProperties(const std::string& bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_TURN_CODEC_H_
