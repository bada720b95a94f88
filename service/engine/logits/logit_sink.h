// Where the raw logits of a turn go, for a comparison of models.
#ifndef LONGSTREAM_SERVICE_ENGINE_LOGITS_LOGIT_SINK_H_
#define LONGSTREAM_SERVICE_ENGINE_LOGITS_LOGIT_SINK_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "backends/api/backend.h"

namespace longstream {

// A token that a turn has drawn or scored, and the row of logits that its probability comes from.
// Everything is valid only during LogitSink::Push.
struct LogitRow {
  int32_t token = 0;
  float log_prob = 0.0f;              // as the backend reports it
  std::span<const ls_top_token> top;  // as the backend reports them, most probable first
  std::string_view text;              // what a drawn token adds to the text of the answer
  std::span<const float> logits;      // [vocabulary] f32
};

// The engine thread calls all functions. They must not block.
class LogitSink {
 public:
  enum class Room {
    kFree,
    kReaderIsBehind,  // the turn pauses until its client has read more
    kOthersAreBehind  // the turn pauses until other turns have come as far
  };

  virtual ~LogitSink() = default;

  // The turn was admitted: it has its memory, and its stream gets the StartedEvent next.
  virtual void Began() {}
  // The turn has given back its memory, and waits for it again. Whatever waits for the turn should
  // not hold memory that it waits for.
  virtual void WaitsAgain() {}

  // Whether the turn may take part in further steps. Rows of the steps in flight, at most two,
  // still come when there is no room. When there is room again, the sink wakes the engine.
  virtual Room GetRoom() = 0;

  // How many rows the reader has taken. While it grows, the client is not silent.
  virtual uint64_t rows_taken() const = 0;

  // Gets the rows of one turn in the order of their tokens.
  virtual void Push(const LogitRow& row) = 0;

  // Whether the sink still wants rows of tokens that are drawn. Once it wants none, it never wants
  // any: then the turn computes none. Rows of the steps in flight are dropped.
  virtual bool WantsRows() const { return true; }

  // The backend could not give the row of a drawn token. True: the turn goes on, and WantsRows() is
  // false. False: the turn ends with `why`.
  virtual bool GoesOnWithout(const absl::Status& /*why*/) { return false; }

  // The turn has ended, or goes on without the reader that has started it, which gets this error.
  // The reader may hear of it much later, when it has read everything before. May be called more
  // than once.
  virtual void Ended(const absl::Status& /*status*/) {}
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_LOGITS_LOGIT_SINK_H_
