// Chooses random actions, applies each to both models, and compares.
#include "tests/conformance/random_steps/random_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/report.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

// A sequence of the tested model and the same sequence of the reference.
struct Twin {
  Sequence tested;
  Sequence reference;
  uint64_t rollback_point = 0;
};

// The entries of one step: entry i of both batches is for sequence `owners[i]`.
struct Batch {
  std::vector<size_t> owners;
  std::vector<Entry> tested;
  std::vector<Entry> reference;
};

class Runner {
 public:
  Runner(Model& model, Model& reference, const RandomSteps& settings)
      : tested_(model), reference_(reference), settings_(settings), random_(settings.seed) {}

  RandomStepsResult Run() {
    for (uint32_t i = 0; i < settings_.sequences; ++i) twins_.push_back(Create());
    for (step_ = 0; step_ < settings_.steps; ++step_) {
      for (size_t i = 0; i < twins_.size(); ++i) Act(i);
      Step();
    }
    return result_;
  }

 private:
  // A number in [begin, end).
  uint64_t Between(uint64_t begin, uint64_t end) { return begin + random_() % (end - begin); }
  bool OneIn(uint64_t count) { return random_() % count == 0; }
  uint64_t limit() const { return tested_.info().context_limit; }

  std::string Where(size_t i) const {
    return "step " + std::to_string(step_) + ", sequence " + std::to_string(i) + ": ";
  }

  void Reserve(Twin& twin) const {
    twin.tested.Reserve(limit() - twin.tested.position());
    twin.reference.Reserve(limit() - twin.reference.position());
  }

  void Mark(Twin& twin) const {
    twin.tested.Checkpoint();
    twin.reference.Checkpoint();
    twin.rollback_point = twin.tested.position();
  }

  Twin Create() {
    Twin twin{tested_.Create(limit()), reference_.Create(limit())};
    Mark(twin);
    return twin;
  }

  // Frees, forks, truncates or marks a sequence, or leaves it as it is.
  void Act(size_t i) {
    Twin& twin = twins_[i];
    const uint64_t position = twin.tested.position();
    if (position == limit() || OneIn(80)) {
      twin = Create();
      ++result_.restarts;
    } else if (OneIn(40)) {
      Twin& source = twins_[Between(0, twins_.size())];
      // A sequence at the limit has no room for a reservation.
      if (&source == &twin || source.tested.position() == limit()) return;
      twin = Twin{source.tested.Fork(), source.reference.Fork()};
      Reserve(twin);
      Mark(twin);
      ++result_.forks;
    } else if (position > twin.rollback_point && OneIn(12)) {
      Truncate(i);
    } else if (OneIn(25)) {
      Mark(twin);
    }
  }

  void Truncate(size_t i) {
    Twin& twin = twins_[i];
    const uint64_t position = Between(twin.rollback_point, twin.tested.position());
    const uint64_t tested = twin.tested.Truncate(position);
    const uint64_t reference = twin.reference.Truncate(position);
    if (tested != reference) {
      throw CheckFailed{Where(i) + "truncated to " + std::to_string(tested) +
                        ", the reference to " + std::to_string(reference)};
    }
    ++result_.truncations;
  }

  // Half of the steps have only decode rows. The others mix them with pieces of prompts.
  void Step() {
    const bool decode_only = OneIn(2);
    std::vector<size_t> order(twins_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(Between(1, order.size() + 1));
    Batch batch;
    for (const size_t i : order) {
      const uint64_t position = twins_[i].tested.position();
      if (position == limit() || (decode_only && position == 0)) continue;
      const bool is_decode = position > 0 && (decode_only || OneIn(2));
      Feed(i, is_decode, decode_only, batch);
    }
    if (batch.owners.empty()) return;
    if (decode_only) ++result_.decode_steps;
    const std::vector<Output> tested = tested_.Step(batch.tested);
    const std::vector<Output> reference = reference_.Step(batch.reference);
    for (size_t e = 0; e < batch.owners.size(); ++e) {
      Compare(batch.owners[e], batch.tested[e].sampling != nullptr, tested[e], reference[e]);
    }
  }

  void Feed(size_t i, bool is_decode, bool sampled, Batch& batch) {
    Twin& twin = twins_[i];
    const uint64_t room = limit() - twin.tested.position();
    // Most pieces are short. Some cross several pages.
    const uint64_t longest = OneIn(6) ? 100 : 20;
    const uint64_t count = is_decode ? 1 : Between(1, std::min(room, longest) + 1);
    std::vector<int32_t> tokens;
    for (uint64_t t = 0; t < count; ++t) {
      tokens.push_back(static_cast<int32_t>(Between(0, tested_.info().vocabulary_size)));
    }
    Entry entry = Prefill(twin.tested, std::move(tokens));
    entry.is_decode = is_decode;
    entry.logit_rows = OneIn(8) ? LS_ROWS_ALL : LS_ROWS_LAST;
    if (sampled || OneIn(2)) entry.sampling = &greedy_;
    batch.owners.push_back(i);
    batch.tested.push_back(entry);
    entry.sequence = &twin.reference;
    batch.reference.push_back(std::move(entry));
  }

  void Compare(size_t i, bool is_sampled, const Output& tested, const Output& reference) {
    if (tested.code != LS_OK || reference.code != LS_OK) {
      throw CheckFailed{Where(i) + NameOf(tested.code) + " " + tested.message +
                        "; reference: " + NameOf(reference.code) + " " + reference.message};
    }
    const size_t row = tested_.info().vocabulary_size;
    const double difference = RelativeDifference(reference.logits, tested.logits, row);
    result_.largest_difference = std::max(result_.largest_difference, difference);
    result_.rows += reference.logits.size() / row;
    if (!(difference <= settings_.tolerance)) {
      throw CheckFailed{Where(i) + "logits differ by " + Text(difference) +
                        " standard deviations of a row"};
    }
    if (!is_sampled) return;
    ++result_.sampled;
    if (tested.sampled == reference.sampled) return;
    const float* const last = reference.logits.data() + (reference.logits.size() - row);
    // Both logits may be off by the tolerance.
    const double gap = std::abs(last[reference.sampled] - last[tested.sampled]);
    if (gap > 2 * settings_.tolerance * Deviation(last, row)) {
      throw CheckFailed{Where(i) + "sampled " + std::to_string(tested.sampled) +
                        ", the reference " + std::to_string(reference.sampled)};
    }
  }

  Model& tested_;
  Model& reference_;
  const RandomSteps settings_;
  const ls_sampling greedy_ = Greedy();
  std::mt19937_64 random_;
  std::vector<Twin> twins_;
  uint32_t step_ = 0;
  RandomStepsResult result_;
};

}  // namespace

RandomStepsResult RunRandomSteps(Model& model, Model& reference, const RandomSteps& settings) {
  return Runner(model, reference, settings).Run();
}

}  // namespace longstream::conformance
