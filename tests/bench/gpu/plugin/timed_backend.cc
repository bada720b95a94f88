// The table of a plugin that times the steps of its model. When the model is closed, the plugin
// logs one line (kFormat) about the steps that decode one token for each of max_batch_sequences.
// Used by one model at a time.
#include <cstdint>
#include <cstdio>
#include <deque>

#include "backends/api/backend.h"
#include "tests/bench/timing.h"

// The table of c_abi.cc, which this plugin compiles with another name for the symbol of the ABI.
extern "C" const ls_backend* longstream_untimed_backend();

namespace longstream {
namespace {

// The first steps record graphs and load code.
constexpr uint64_t kWarmSteps = 16;
// If a wait is shorter than this, the step may have ended before the next one was in the queue.
constexpr double kShortWait = 10e-6;
constexpr char kFormat[] =
    "full steps %llu, microseconds per step %.1f, waiting %.1f, submitting %.1f, short waits %llu";

struct Submitted {
  bool is_full = false;
  double submitting = 0;
};

class StepClock {
 public:
  void Open(const ls_model_options& options) {
    *this = {};
    host_ = options.host;
    most_ = options.max_batch_sequences;
  }

  void Submit(const ls_batch& batch, double seconds) {
    bool is_full = batch.num_entries == most_;
    for (uint32_t i = 0; i < batch.num_entries; ++i) {
      is_full = is_full && batch.entries[i].is_decode != 0;
    }
    in_flight_.push_back({is_full, seconds});
  }

  void Wait(double begin, double end) {
    const Submitted step = in_flight_.front();
    in_flight_.pop_front();
    // A step that follows another kind of step does not have the device to itself.
    if (step.is_full && last_was_full_ && ++seen_ > kWarmSteps) {
      ++steps_;
      seconds_ += end - last_end_;
      waiting_ += end - begin;
      submitting_ += step.submitting;
      if (end - begin < kShortWait) ++short_waits_;
    }
    last_was_full_ = step.is_full;
    last_end_ = end;
  }

  void Log() const {
    if (host_ == nullptr || host_->log == nullptr) return;
    const double each = steps_ == 0 ? 0 : 1e6 / static_cast<double>(steps_);
    char line[200];
    std::snprintf(line, sizeof(line), kFormat, static_cast<unsigned long long>(steps_),
                  seconds_ * each, waiting_ * each, submitting_ * each,
                  static_cast<unsigned long long>(short_waits_));
    host_->log(host_->context, /*severity=*/1, line);
  }

 private:
  const ls_host* host_ = nullptr;
  uint32_t most_ = 0;
  std::deque<Submitted> in_flight_;
  bool last_was_full_ = false;
  double last_end_ = 0;
  uint64_t seen_ = 0;
  uint64_t steps_ = 0;
  uint64_t short_waits_ = 0;
  double seconds_ = 0;
  double waiting_ = 0;
  double submitting_ = 0;
};

StepClock& TheClock() {
  static StepClock clock;
  return clock;
}

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  const ls_code code = longstream_untimed_backend()->model_open(options, model, error);
  if (code == LS_OK) TheClock().Open(*options);
  return code;
}

void Close(ls_model* model) {
  TheClock().Log();
  longstream_untimed_backend()->model_close(model);
}

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  ls_code code = LS_OK;
  const double seconds =
      SecondsOf([&] { code = longstream_untimed_backend()->submit(model, batch, ticket, error); });
  if (code == LS_OK) TheClock().Submit(*batch, seconds);
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const double begin = Seconds();
  const ls_code code = longstream_untimed_backend()->wait(model, ticket, results, error);
  if (code == LS_OK) TheClock().Wait(begin, Seconds());
  return code;
}

const ls_backend& Table() {
  static const ls_backend table = [] {
    ls_backend timed = *longstream_untimed_backend();
    timed.model_open = Open;
    timed.model_close = Close;
    timed.submit = Submit;
    timed.wait = Wait;
    return timed;
  }();
  return table;
}

}  // namespace
}  // namespace longstream

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  return &longstream::Table();
}
