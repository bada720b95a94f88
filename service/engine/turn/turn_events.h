// The events that a turn sends to its reader, and the end of a turn.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_EVENTS_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "backends/api/backend.h"
#include "service/sessions/session.h"

namespace longstream {

// The turn was admitted.
struct StartedEvent {
  uint64_t position = 0;       // the session's position before the turn
  uint64_t prompt_tokens = 0;  // prompt tokens that the turn adds
  uint64_t seed = 0;
  bool in_thoughts = false;  // the prompt ends within the model's thoughts
};

struct PrefillEvent {
  uint64_t done_tokens = 0;
  uint64_t total_tokens = 0;
};

struct TokenLogProb {
  int32_t token = 0;
  float log_prob = 0.0f;
  std::vector<ls_top_token> top;
};

// Generated text and tokens. Deltas that wait for a slow reader are merged into one.
struct DeltaEvent {
  std::string text;  // whole UTF-8 characters
  // Empty only if the text stands for an incomplete character of an earlier turn.
  std::vector<int32_t> tokens;
  uint64_t position = 0;  // the session's position after these tokens
  std::vector<TokenLogProb> log_probs;
};

// Log-probabilities of consecutive tokens of a scored text. The first token of the text has no
// log-probability: NaN.
struct ScoreEvent {
  uint64_t first_index = 0;
  std::vector<TokenLogProb> tokens;
};

using TurnEvent = std::variant<StartedEvent, PrefillEvent, DeltaEvent, ScoreEvent>;

// kAborted: the turn was aborted, and the session keeps its tokens (OnAbort::kKeep). kFormat: the
// answer has the form that was asked for, and the turn has no stop token. A log has these numbers.
enum class FinishReason { kNone, kStopToken, kStopString, kMaxTokens, kContext, kAborted, kFormat };

// Where caches were read from.
enum class RestoreSource { kNone, kStore, kPeer };

// The caches of the history with which a turn begins to compute.
struct FoundCaches {
  uint64_t reused = 0;    // history tokens that were in the caches
  uint64_t restored = 0;  // those whose caches were read from `source`
  RestoreSource source = RestoreSource::kNone;
};

struct TurnUsage {
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  uint64_t reused_tokens = 0;      // history tokens that were in the caches
  uint64_t recomputed_tokens = 0;  // history tokens that were computed again
  std::string recompute_reason;
  absl::Duration queue_time;
  absl::Duration prefill_time;
  absl::Duration decode_time;
  absl::Duration time_to_first_token;
  SessionBytes bytes;
  uint64_t forced_tokens = 0;    // generated tokens that the client had received before
  uint64_t restored_tokens = 0;  // history tokens whose caches were read from restore_source
  RestoreSource restore_source = RestoreSource::kNone;
};

// How a turn ended. If `status` is not OK, the turn was refused or aborted, the session is in a
// committed state, and only `position` and `usage` are valid.
struct TurnEnd {
  absl::Status status;
  FinishReason reason = FinishReason::kNone;
  uint64_t position = 0;
  std::string stop_string;
  int32_t stop_token = -1;
  // Bytes of text at the end of the session that no delta has: the stop string and what follows it,
  // or the stop token.
  uint64_t kept_text_bytes = 0;
  // The first bytes of a character at the end of the session that further tokens may complete. They
  // are not part of kept_text_bytes.
  std::string incomplete_character;
  TurnUsage usage;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_EVENTS_H_
