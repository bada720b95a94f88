// The minimal backend as one whose arithmetic overflows: whatever reads the token 0 has NaN logits,
// so that no token can be drawn and no log-probability is a number.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;

// Of the two tickets that may be in flight.
struct Step {
  std::vector<bool> is_nan;  // per entry
  std::vector<ls_result> results;
  std::vector<std::vector<float>> log_probs;
};
std::array<Step, 2> steps;

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  const ls_code code = Minimal().submit(model, batch, ticket, error);
  if (code != LS_OK) return code;
  std::vector<bool>& is_nan = steps[*ticket % 2].is_nan;
  is_nan.clear();
  for (uint32_t i = 0; i < batch->num_entries; ++i) {
    const ls_batch_entry& entry = batch->entries[i];
    const int32_t* end = entry.tokens + entry.num_tokens;
    is_nan.push_back(std::find(entry.tokens, end, 0) != end);
  }
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Minimal().wait(model, ticket, results, error);
  if (code != LS_OK) return code;
  Step& step = steps[ticket % 2];
  step.results.assign(results->results, results->results + results->num_results);
  step.log_probs.assign(step.results.size(), {});
  for (size_t i = 0; i < step.results.size(); ++i) {
    if (!step.is_nan[i]) continue;
    ls_result& result = step.results[i];
    result.sampled = -1;
    step.log_probs[i].assign(result.num_log_prob_rows, std::numeric_limits<float>::quiet_NaN());
    result.log_probs = step.log_probs[i].data();
  }
  results->results = step.results.data();
  return code;
}

ls_backend Table() {
  ls_backend table = Minimal();
  table.submit = Submit;
  table.wait = Wait;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kTable = Table();
  return &kTable;
}
