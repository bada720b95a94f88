// The two parts of a session: its state, and the model's caches for that state.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/chat/history.h"
#include "service/clock/monotonic_time.h"
#include "service/models/backend_model.h"
#include "service/sessions/feed.h"

namespace longstream {

// An incomplete character at the end of the text that turns have generated. No delta has it yet.
// The next turn that generates delivers it: with its rest if the turn has no input, otherwise as
// U+FFFD.
struct TextTail {
  std::string bytes;       // its first bytes, at most 3; empty: there is no incomplete character
  bool has_ended = false;  // input follows the bytes, so no token can complete the character
};

// How evicted caches are computed again.
enum class Recompute {
  kExact,  // as the feed says, so that the bits are the same
  kFast,   // the whole history as one prefill; the results agree to rounding
};

// The whole state of a session. The caches can always be computed again from the state.
//
// Only the holder of the session's lease (TurnLease) uses the state, so the state needs no lock.
struct SessionState {
  std::vector<int32_t> tokens;
  std::vector<bool> generated;  // per token: whether the model drew it
  // How the first tokens were read. The caches, if there are any, have read them in this way, but
  // perhaps not all of them yet.
  Feed feed;
  Recompute recompute = Recompute::kExact;
  TextTail tail;
  // The conversation that the tokens encode. nullptr: the tokens are not a conversation.
  std::shared_ptr<const chat::History> conversation;  // shared with forks
};

// Caches that a turn left at its end, so that the session can return there without computing
// everything again. They have read the first tokens of the session as its feed says. Pages are
// shared with the sequence of the session; rings and states are a copy.
struct ReturnPoint {
  uint64_t position = 0;
  Sequence caches;
  uint64_t number = 0;           // the engine's, in the order in which points are made
  std::shared_ptr<void> listed;  // by the engine, until the point is destroyed
};

// The model's caches for the tokens of a session.
//
// Only the thread of the model's engine creates, uses and frees the sequence. It frees the sequence
// before the session is destroyed.
struct SessionCaches {
  // The sequence has read a prefix of the tokens, but never the last token. So the next turn always
  // has a token to read, and logits to draw from.
  Sequence sequence;
  // The number of tokens that the sequence had read when it was last complete. If the sequence's
  // position is lower now, the tokens between the two positions will be computed again.
  uint64_t computed_tokens = 0;
  // Why the position is lower than computed_tokens. The next turn reports this reason.
  std::string recompute_reason;

  // The engine has freed the sequence to make room. The next turn computes the caches again, up to
  // the end of the feed.
  bool evicted = false;
  bool restored = false;  // the session was evicted because it comes from the store
  // The lowest position, except 0, to which the caches could go back when they were evicted. A turn
  // that cuts the history further back reads it anew as one prefill, evicted or not. So evictions
  // do not change any bits.
  uint64_t lowest_rewind = 0;
  MonotonicTime restored_at = MonotonicTime::InfinitePast();  // when evicted caches were back
  // At the ends of earlier turns, their positions ascending. The engine frees them first when
  // memory is short.
  std::vector<ReturnPoint> return_points;
  // How many tokens of the feed are read as prefills and as decode entries.
  uint64_t prefill_tokens = 0;
  uint64_t decode_tokens = 0;
  // The ends of the spans of these tokens that are in the store or on the way there, ascending.
  std::vector<uint64_t> span_ends;
  // The next turn reads the caches up to here from the store, if nothing changes; 0: it does not.
  uint64_t stored_position = 0;
  // So many of the tokens, and how they were read, are as they were when StoredCaches::Find was
  // called last.
  uint64_t unchanged = 0;
  // The caches up to here have come from another replica, and no turn has reported that yet.
  uint64_t peer_position = 0;
  // The kernels that have computed the caches, if others than those of the model (StoredPlace), or
  // the file that has brought them (kFromFile).
  std::string other_kernels;

  // Frees the memory of the model's device.
  void Free() {
    sequence = Sequence();
    return_points.clear();
  }
  // Frees a return point. Returns false if the session does not have it.
  bool FreeReturnPoint(uint64_t number) {
    return std::erase_if(return_points,
                         [number](const ReturnPoint& point) { return point.number == number; }) > 0;
  }
  // The session has other tokens from `position` on, or reads them otherwise.
  void ForgetFrom(uint64_t position) {
    while (!return_points.empty() && return_points.back().position > position) {
      return_points.pop_back();
    }
    while (!span_ends.empty() && span_ends.back() > position) span_ends.pop_back();
    if (stored_position > position) stored_position = 0;
    if (unchanged > position) unchanged = position;
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_
