// How long reading tokens takes.
#ifndef LONGSTREAM_SERVICE_ENGINE_COSTS_READING_TIMES_H_
#define LONGSTREAM_SERVICE_ENGINE_COSTS_READING_TIMES_H_

namespace longstream {

// The measured times of reading tokens. 0: not measured yet.
struct ReadingTimes {
  double prefill_token = 0.0;  // seconds per token of a prompt
  double decode_step = 0.0;    // seconds per step of decode rows

  // The same with a guess in place of each time that is not measured yet.
  ReadingTimes Complete() const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_COSTS_READING_TIMES_H_
