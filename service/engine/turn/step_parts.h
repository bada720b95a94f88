// The parts of a turn that are in flight: what each step in flight does for the turn.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_STEP_PARTS_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_STEP_PARTS_H_

#include <cstdint>
#include <deque>

namespace longstream {

// The part of one turn in one step. The step reads the turn's tokens at the positions [begin, end).
struct StepPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool draws = false;      // true: the step draws the token at position `end`
  bool is_decode = false;  // the step reads a single token, as a decode entry
};

// The parts in flight, at most two, in the order of their steps. Used by one thread.
class StepParts {
 public:
  bool in_flight() const { return !in_flight_.empty(); }
  // Whether a step in flight draws the next token.
  bool drawing() const { return in_flight() && in_flight_.back().draws; }

  // Sets the turn's part of the step that is being composed.
  void Compose(const StepPart& part) { composed_ = part; }
  // The composed step was submitted.
  void Submit(uint64_t step) {
    in_flight_.push_back(composed_);
    last_step_ = step;
    passed_over_ = 0;
    goes_alone_ = false;
  }
  // The composed step was refused as a whole. The turn's next step must have no other turn.
  void Refuse() { goes_alone_ = true; }
  bool goes_alone() const { return goes_alone_; }
  // The oldest step is done: removes its part and returns it. REQUIRES: in_flight().
  StepPart Land() {
    const StepPart part = in_flight_.front();
    in_flight_.pop_front();
    return part;
  }
  // The part of the oldest step. REQUIRES: in_flight().
  const StepPart& oldest() const { return in_flight_.front(); }
  // The number of the last step that the turn was part of. 0: none.
  uint64_t last_step() const { return last_step_; }
  // A step was submitted that reads other prompts and not the turn's.
  void PassOver() { ++passed_over_; }
  // How many such steps there were since the last step.
  uint32_t passed_over() const { return passed_over_; }

 private:
  StepPart composed_;
  std::deque<StepPart> in_flight_;
  uint64_t last_step_ = 0;
  uint32_t passed_over_ = 0;
  bool goes_alone_ = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_STEP_PARTS_H_
