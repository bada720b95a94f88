// Guesses the times that are not measured yet.
#include "service/engine/costs/reading_times.h"

namespace longstream {
namespace {

// While one of the two times is unknown, a decode step counts as so many tokens of a prompt.
constexpr double kTokensPerDecodeStep = 16.0;
// While both are unknown, a token of a prompt counts as so many seconds.
constexpr double kTokenSeconds = 1e-3;

}  // namespace

ReadingTimes ReadingTimes::Complete() const {
  ReadingTimes times = *this;
  if (times.prefill_token <= 0.0) {
    times.prefill_token =
        times.decode_step > 0.0 ? times.decode_step / kTokensPerDecodeStep : kTokenSeconds;
  }
  if (times.decode_step <= 0.0) times.decode_step = kTokensPerDecodeStep * times.prefill_token;
  return times;
}

}  // namespace longstream
