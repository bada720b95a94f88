// What the broken plugins are made of: the minimal backend, with some functions of its table
// replaced.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_BROKEN_WRAPPED_MINIMAL_H_
#define LONGSTREAM_TESTS_CONFORMANCE_BROKEN_WRAPPED_MINIMAL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/api/backend.h"

// backends/minimal/minimal.cc, compiled with its one symbol under another name.
extern "C" const ls_backend* minimal_backend();

namespace longstream::conformance {

inline const ls_backend& Minimal() { return *minimal_backend(); }

// Changes the logits of a step on their way out. A step's results are copied, so that they stay
// valid as the ABI demands. One model at a time; not thread-safe.
class SpoiledResults {
 public:
  // Called with the logits of entry i of a batch.
  using Spoil = std::function<void(std::vector<float>& logits, const ls_batch& batch, size_t i)>;

  // To be called where submit has succeeded.
  void Submitted(uint64_t ticket, const ls_batch& batch) {
    Step& step = steps_[ticket % 2];
    step.entries.assign(batch.entries, batch.entries + batch.num_entries);
  }

  // To be called where wait has succeeded.
  void Waited(uint64_t ticket, uint32_t vocabulary, ls_results* results, const Spoil& spoil) {
    Step& step = steps_[ticket % 2];
    step.results.assign(results->results, results->results + results->num_results);
    step.logits.resize(step.results.size());
    const ls_batch batch = {sizeof(ls_batch), step.entries.data(),
                            static_cast<uint32_t>(step.entries.size())};
    for (size_t i = 0; i < step.results.size(); ++i) {
      ls_result& result = step.results[i];
      if (result.num_logit_rows == 0) continue;
      step.logits[i].assign(result.logits, result.logits + result.num_logit_rows * vocabulary);
      spoil(step.logits[i], batch, i);
      result.logits = step.logits[i].data();
    }
    results->results = step.results.data();
  }

 private:
  struct Step {
    std::vector<ls_batch_entry> entries;  // their pointers are not followed
    std::vector<ls_result> results;
    std::vector<std::vector<float>> logits;
  };
  std::array<Step, 2> steps_;
};

// Whether an entry has the token among those that it feeds.
inline bool Reads(const ls_batch_entry& entry, int32_t token) {
  const int32_t* end = entry.tokens + entry.num_tokens;
  return std::find(entry.tokens, end, token) != end;
}

// Changes the results of entries that read a token. Copied and used as by SpoiledResults.
class MarkedResults {
 public:
  // To be called where submit has succeeded.
  void Submitted(uint64_t ticket, const ls_batch& batch, int32_t token) {
    std::vector<bool>& marks = steps_[ticket % 2].marks;
    marks.clear();
    for (uint32_t i = 0; i < batch.num_entries; ++i) {
      marks.push_back(Reads(batch.entries[i], token));
    }
  }

  // To be called where wait has succeeded: calls change(result, i) for those entries.
  template <typename Change>
  void Waited(uint64_t ticket, ls_results* results, const Change& change) {
    Step& step = steps_[ticket % 2];
    step.results.assign(results->results, results->results + results->num_results);
    for (size_t i = 0; i < step.results.size(); ++i) {
      if (step.marks[i]) change(step.results[i], i);
    }
    results->results = step.results.data();
  }

 private:
  struct Step {
    std::vector<bool> marks;  // per entry
    std::vector<ls_result> results;
  };
  std::array<Step, 2> steps_;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_BROKEN_WRAPPED_MINIMAL_H_
