// A turn's parts of the steps in flight.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_STEP_PARTS_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_STEP_PARTS_H_

#include <cstdint>
#include <deque>

namespace longstream {

// One turn's part of one step: it reads the tokens at [begin, end).
struct StepPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool draws = false;  // the token at `end`
};

// Which parts are in flight, two at most, in the order of their steps. Used by one thread.
class StepParts {
 public:
  bool in_flight() const { return !in_flight_.empty(); }
  // The token that comes next is being drawn.
  bool drawing() const { return in_flight() && in_flight_.back().draws; }

  // The turn's part of the step that is being composed.
  void Compose(const StepPart& part) { composed_ = part; }
  // That step was submitted.
  void Submit(uint64_t step) {
    in_flight_.push_back(composed_);
    last_step_ = step;
    goes_alone_ = false;
  }
  // That step was refused as a whole: the turn's next one must have no other turn.
  void Refuse() { goes_alone_ = true; }
  bool goes_alone() const { return goes_alone_; }
  // The oldest step is done. REQUIRES: in_flight().
  StepPart Land() {
    const StepPart part = in_flight_.front();
    in_flight_.pop_front();
    return part;
  }
  // Number of the last step that the turn was part of; 0: none.
  uint64_t last_step() const { return last_step_; }

 private:
  StepPart composed_;
  std::deque<StepPart> in_flight_;
  uint64_t last_step_ = 0;
  bool goes_alone_ = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_STEP_PARTS_H_
