// One turn: a caller's request to a model, and the stream that the caller reads.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/chat/history.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/logits/followed_tokens.h"
#include "service/engine/logits/logit_sink.h"
#include "service/engine/turn/turn_journal.h"
#include "service/engine/turn/turn_stream.h"
#include "service/grammar/token_masks.h"
#include "service/host_memory/host_memory.h"
#include "service/metrics/alias_metrics.h"
#include "service/security/tenants/tenant.h"

namespace longstream {

enum class TurnKind { kGenerate, kAppend, kScore };

// Whether a session keeps the tokens of a turn that does not finish, or is rolled back. kContinue:
// a turn that its reader leaves goes on; if it is aborted otherwise, it is rolled back.
enum class OnAbort { kRollback, kKeep, kContinue };

enum class Priority { kLow, kNormal, kHigh };

// A bias of -100 or less bans a token, as the wire contract says.
inline constexpr float kBanBias = -100.0f;

// Which generated tokens the presence and frequency penalties count.
enum class PenaltyScope { kTurn, kSession };

// How tokens are drawn; backends/api/backend.h (ls_sampling) explains each field.
struct SamplingParams {
  float temperature = 0.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  PenaltyScope penalty_scope = PenaltyScope::kTurn;
  std::map<int32_t, float> logit_bias;
  uint64_t seed = 0;

  bool UsesHistory() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
};

struct StopParams {
  std::vector<std::string> strings;
  std::vector<int32_t> token_ids;  // include the model's end ids, unless the request ignores them
  uint32_t min_tokens = 0;
  bool drops_text = false;  // the session does not keep the text that no delta has
};

// The messages of a turn, as a log keeps them.
struct LoggedMessages {
  std::string messages;  // in the form of the wire contract
  bool parse_special = false;
  bool generates = false;
  std::tm now = {};  // the time that the template saw
};

// A turn in plain values, which service/server makes from a request. The server has checked all ids
// and limits, and has read `prompt` against the history that the turn's lease protects.
struct TurnRequest {
  TurnKind kind = TurnKind::kGenerate;
  // Tokens that are added to the history after its first `kept_tokens` tokens. Together they fit
  // into the context.
  std::vector<int32_t> prompt;
  // The history is cut to this many tokens before the prompt is added. Absent: the whole history
  // stays. A rollback restores the tokens that were cut off.
  std::optional<uint64_t> kept_tokens;
  // The conversation of the history and the prompt together. nullptr: the conversation does not
  // change.
  std::shared_ptr<const chat::History> conversation;
  OnAbort on_abort = OnAbort::kRollback;
  Priority priority = Priority::kNormal;
  SamplingParams sampling;
  StopParams stop;
  // The form of the answer of a kGenerate turn. nullptr: any text.
  std::shared_ptr<const TokenMasks> format{};
  uint64_t max_tokens = 0;  // 0: no limit but the stop rules and the end of the context
  bool log_probs = false;
  uint32_t top_log_probs = 0;
  MonotonicTime deadline = MonotonicTime::InfiniteFuture();
  std::string request_id{};  // of the call, for the log; empty: there is none
  // The first tokens of the answer, which the client has received before. They stand, whatever the
  // model draws. They are in the vocabulary.
  std::vector<int32_t> forced_tokens{};
  // Whether the turn outlives its reader: another one may come. on_abort then acts when no reader
  // has come for `resume_window`.
  bool outlives_reader = false;
  absl::Duration resume_window = absl::ZeroDuration();
  // The messages that `conversation` was made from, for a turn that is logged. May be nullptr.
  std::shared_ptr<const LoggedMessages> logged_messages{};
  // The session is the turn's own: its caches are freed when the turn ends. A kScore turn always
  // has its own session.
  bool own_session = false;
  // Gets the drawn or scored tokens with their logits; of a kScore turn those from token
  // `logits_from` >= 1 on, and then the stream gets no scores. nullptr: nobody wants them. With a
  // sink, a kGenerate turn computes log-probabilities even if its client gets none.
  std::shared_ptr<LogitSink> logits{};
  uint64_t logits_from = 0;
  // A kGenerate turn reads these tokens as its answer, whatever the model draws. It pauses while
  // the next one is missing, and ends when no further one will come. They are in the vocabulary.
  // nullptr: the turn draws its own answer.
  std::shared_ptr<FollowedTokens> followed{};
  // The turn runs only while no other turn does (BackgroundTurns). It has its own session, and
  // nobody counts it. REQUIRES: kind is kScore.
  bool background = false;
  bool in_thoughts = false;  // the prompt ends within the model's thoughts

  bool has_own_session() const { return own_session || kind == TurnKind::kScore; }
};

// The memory that a request holds, without its conversation.
uint64_t BytesOf(const TurnRequest& request);

// Shared by the caller and the engine. All members that are not const are thread-safe.
class Turn {
 public:
  explicit Turn(TurnRequest turn_request)
      : request(std::move(turn_request)), arrival(MonotonicTime::Now()) {
    input_closed_ = request.kind != TurnKind::kAppend;
  }

  // Ends the turn, because the caller has gone, has cancelled, or has sent a message that must be
  // refused. The turn ends with the reason of the first call, when its steps in flight (at most
  // two) are done. Call Engine::Wake afterwards.
  void Cancel(absl::Status reason = absl::CancelledError("the caller cancelled the turn"))
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (cancel_reason_.ok()) cancel_reason_ = std::move(reason);
    cancelled_.store(true, std::memory_order_release);
  }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // The reason of the first Cancel. OK if the turn was not cancelled.
  absl::Status cancel_reason() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return cancel_reason_;
  }

  // For a turn that outlives its reader. The reader has gone or has come; the stream knows which
  // one reads. Call Engine::Wake after ReaderGone.
  void ReaderGone() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (request.on_abort != OnAbort::kContinue) {
      absl::MutexLock lock(&mutex_);
      forsaken_at_ = MonotonicTime::Now() + request.resume_window;
    }
  }
  void ReaderCame() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    forsaken_at_ = MonotonicTime::InfiniteFuture();
  }
  // When the turn ends because no reader has come back.
  MonotonicTime forsaken_at() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return forsaken_at_;
  }

  // For kAppend. AddInput adds tokens that have arrived; they were encoded as the continuation of
  // the history and of all earlier input. CloseInput says that no more will arrive.
  void AddInput(std::span<const int32_t> tokens) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    input_.tokens.insert(input_.tokens.end(), tokens.begin(), tokens.end());
    input_charge_.Set(BlockBytes(input_.tokens));
  }
  void CloseInput() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    input_closed_ = true;
  }

  // For the engine: the tokens that have arrived since the last call, and whether the input is
  // complete.
  struct Input {
    std::vector<int32_t> tokens;
    bool closed = false;
  };
  Input TakeInput() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    Input taken = std::exchange(input_, {});
    input_charge_.Set(0);
    taken.closed = input_closed_;
    return taken;
  }

  // Counts the request while the turn exists; its conversation has its own charges. Call it once,
  // before the turn starts. RESOURCE_EXHAUSTED: as for HostCharge::Add.
  absl::Status Charge(HostMemory* memory) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    charge_ = HostCharge(memory);
    input_charge_ = HostCharge(memory);
    return charge_.Add(BytesOf(request));
  }
  // RESOURCE_EXHAUSTED: the memory has no room for so many tokens of input. The caller then does
  // not call AddInput.
  absl::Status CheckInputRoom(size_t tokens) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const HostMemory* const memory = input_charge_.memory();
    return memory == nullptr ? absl::OkStatus()
                             : memory->CheckRoom(BlockBytes(tokens * sizeof(int32_t)));
  }

  const TurnRequest request;
  const MonotonicTime arrival;
  TurnStream stream;
  // May be nullptr. Set it before the turn is started.
  std::shared_ptr<TurnJournal> journal;
  // The turn's part of the quotas of its tenant. Set it before the turn is started; then
  // only the engine thread uses it, but for TurnAllowance::Take.
  TurnAllowance allowance;
  // Counts the turn once more, for the arm of the alias that its session came by. May be nullptr.
  // Set it before the turn is started.
  std::shared_ptr<ArmMetrics> arm;
  // Gets the answer of a kGenerate turn. May be nullptr. Set it before the turn is started.
  std::shared_ptr<AnswerTap> tap;

 private:
  std::atomic<bool> cancelled_{false};
  mutable absl::Mutex mutex_;
  MonotonicTime forsaken_at_ ABSL_GUARDED_BY(mutex_) = MonotonicTime::InfiniteFuture();
  absl::Status cancel_reason_ ABSL_GUARDED_BY(mutex_);
  Input input_ ABSL_GUARDED_BY(mutex_);
  HostCharge charge_ ABSL_GUARDED_BY(mutex_);
  HostCharge input_charge_ ABSL_GUARDED_BY(mutex_);  // for input_
  bool input_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_H_
