// The minimal backend as one whose steps fail by what they read: a batch with the token 'X' is
// refused as a whole, and there is no memory for an entry with the token 'M'.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;

bool Reads(const ls_batch_entry& entry, int32_t token) {
  const int32_t* end = entry.tokens + entry.num_tokens;
  return std::find(entry.tokens, end, token) != end;
}

// Of the two tickets that may be in flight.
struct Step {
  std::vector<bool> lacks_memory;  // per entry
  std::vector<ls_result> results;
};
std::array<Step, 2> steps;

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  const ls_batch_entry* end = batch->entries + batch->num_entries;
  if (std::any_of(batch->entries, end, [](const auto& entry) { return Reads(entry, 'X'); })) {
    std::snprintf(error.text, error.capacity, "there is an X");
    return LS_INVALID_ARGUMENT;
  }
  const ls_code code = Minimal().submit(model, batch, ticket, error);
  if (code != LS_OK) return code;
  std::vector<bool>& lacks_memory = steps[*ticket % 2].lacks_memory;
  lacks_memory.clear();
  for (uint32_t i = 0; i < batch->num_entries; ++i) {
    lacks_memory.push_back(Reads(batch->entries[i], 'M'));
  }
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Minimal().wait(model, ticket, results, error);
  if (code != LS_OK) return code;
  Step& step = steps[ticket % 2];
  step.results.assign(results->results, results->results + results->num_results);
  for (size_t i = 0; i < step.results.size(); ++i) {
    if (!step.lacks_memory[i]) continue;
    step.results[i] = ls_result{};
    step.results[i].code = LS_RESOURCE_EXHAUSTED;
    step.results[i].message = "lists of penalties";
    step.results[i].sampled = -1;
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
