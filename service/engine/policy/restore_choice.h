// Decides whether a session's caches are read from the store or computed again.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_RESTORE_CHOICE_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_RESTORE_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/time/time.h"
#include "service/engine/costs/reading_times.h"

namespace longstream {

// Tokens that a turn reads again before it can go on.
struct Replay {
  uint64_t prefill_tokens = 0;
  uint64_t decode_tokens = 0;
};

// A way to have the caches: from a snapshot in the store, then by computing the rest.
struct RestoreOption {
  uint64_t bytes = 0;  // of the snapshot, about
  Replay rest;
};

// How fast snapshots are read from the store, from the last ones. Used by one thread.
class RestoreSpeed {
 public:
  // A `time` <= 0 is ignored.
  void Learn(uint64_t bytes, absl::Duration time);
  double SecondsFor(uint64_t bytes) const;

 private:
  // Of reading a snapshot without bytes: the rows, and the opening of files.
  static constexpr double kFixedSeconds = 500e-6;

  double seconds_per_byte_ = 1.0 / 500e6;  // until it is measured: a slow SSD
};

// The measured costs of both ways.
struct RestoreCosts {
  ReadingTimes times;
  RestoreSpeed speed;
};

// The estimated time of a replay. Times that are not measured yet are guessed, as for
// EvictionOrder.
double SecondsFor(const Replay& replay, const ReadingTimes& times);

// How long a turn waits for a snapshot that saves it computing `saved`: as long as computing takes,
// and `least` at least. So a turn whose disk hangs takes at most twice as long as without the
// snapshot, and no other limit promises less.
absl::Duration RestoreLimit(const Replay& saved, const ReadingTimes& times, absl::Duration least);

// Returns the index of the option that takes the least time, or nothing if computing `whole` takes
// no more.
std::optional<size_t> ChooseRestore(std::span<const RestoreOption> options, const Replay& whole,
                                    const RestoreCosts& costs);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_RESTORE_CHOICE_H_
