// The base of the broken plugins is the minimal backend. Each broken plugin replaces some of its
// functions.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_BROKEN_WRAPPED_MINIMAL_H_
#define LONGSTREAM_TESTS_CONFORMANCE_BROKEN_WRAPPED_MINIMAL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/api/backend.h"

// The exported function of backends/minimal/minimal.cc, which is compiled here with this name for
// it.
extern "C" const ls_backend* minimal_backend();

namespace longstream::conformance {

inline const ls_backend& Minimal() { return *minimal_backend(); }

// Changes the logits of a step before the host sees them. Keeps a copy of a step's results, so that
// they stay valid as long as the ABI demands. Supports one model at a time. Not thread-safe.
class SpoiledResults {
 public:
  // Called with the logits of entry i of a batch.
  using Spoil = std::function<void(std::vector<float>& logits, const ls_batch& batch, size_t i)>;

  // Call it when submit has succeeded.
  void Submitted(uint64_t ticket, const ls_batch& batch) {
    Step& step = steps_[ticket % 2];
    step.entries.assign(batch.entries, batch.entries + batch.num_entries);
  }

  // Call it when wait has succeeded.
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
    std::vector<ls_batch_entry> entries;  // do not follow their pointers, which may dangle
    std::vector<ls_result> results;
    std::vector<std::vector<float>> logits;
  };
  std::array<Step, 2> steps_;
};

// Whether `token` is among the tokens that the entry feeds.
inline bool Reads(const ls_batch_entry& entry, int32_t token) {
  const int32_t* end = entry.tokens + entry.num_tokens;
  return std::find(entry.tokens, end, token) != end;
}

// Changes the results of entries that feed a given token. Copies results and is used like
// SpoiledResults.
class MarkedResults {
 public:
  // Call it when submit has succeeded.
  void Submitted(uint64_t ticket, const ls_batch& batch, int32_t token) {
    std::vector<bool>& marks = steps_[ticket % 2].marks;
    marks.clear();
    for (uint32_t i = 0; i < batch.num_entries; ++i) {
      marks.push_back(Reads(batch.entries[i], token));
    }
  }

  // Call it when wait has succeeded. Calls change(result, i) for the entries that feed the token.
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
    std::vector<bool> marks;  // marks[i]: entry i feeds the token
    std::vector<ls_result> results;
  };
  std::array<Step, 2> steps_;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_BROKEN_WRAPPED_MINIMAL_H_
