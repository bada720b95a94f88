// The interfaces through which the engine tells others of a turn: of its log, which learns when it
// starts and how it ends, and of a tap, which gets its answer.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_JOURNAL_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "service/engine/turn/answer.h"
#include "service/engine/turn/turn_events.h"
#include "service/sessions/session_state.h"

namespace longstream {

// How a turn ended, and what it made of its session.
struct EndedTurn {
  TurnEnd end;
  // The tokens of the turn are part of the session now, and the members below are set. Otherwise
  // the session is as it was before the turn.
  bool kept = false;
  std::shared_ptr<const Answer> answer;  // does not change any more; nullptr: it was not kept
  // After the turn, but for `tail` and `conversation`; valid during the call.
  const SessionState* state = nullptr;
  uint64_t start_position = 0;  // the turn's tokens begin here
  uint64_t feed_begin = 0;      // the turn changed the feed from here on
  TextTail tail;
  bool has_messages = false;
  std::shared_ptr<const chat::History> conversation;  // of the session after the turn
  // The lowest position to which a later turn can bring the session's caches back. Set if the turn
  // has messages, because only messages bring caches back.
  uint64_t lowest_rewind = 0;
};

// The engine thread calls the functions, which must not block.
class TurnJournal {
 public:
  virtual ~TurnJournal() = default;

  // Whether the turn is part of a log, from which its session can be restored.
  virtual bool is_logged() const { return false; }

  // The turn was admitted. Called once, before the turn's first event is in its stream.
  virtual void Start(const StartedEvent& started) = 0;

  // The turn has ended. Called once, also for a turn that was not admitted, before the session's
  // lease is dropped and before the end is in the stream.
  virtual void End(const EndedTurn& ended) = 0;

  // Called after End, until it returns a status: OK, or why the turn could not be committed. Then
  // the turn is rolled back. Until then the turn keeps its lease. The engine is woken when the
  // status is known.
  virtual std::optional<absl::Status> Outcome() = 0;

  // The session's lease has been dropped. Called once after Outcome has returned a status, before
  // the end is in the stream.
  virtual void Release() = 0;
};

// Valid only during AnswerTap::Answered.
struct AnsweredTurn {
  std::string_view model;           // that has generated the answer
  std::span<const int32_t> tokens;  // of the whole session, the answer included
  uint64_t answer_begin = 0;        // the index of the answer's first token
};

class AnswerTap {
 public:
  virtual ~AnswerTap() = default;

  // The turn has ended with OK, and its session has the answer. Called on the engine thread. Must
  // not block; other turns wait for it.
  virtual void Answered(const AnsweredTurn& turn) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_JOURNAL_H_
