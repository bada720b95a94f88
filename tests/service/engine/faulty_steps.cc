// The minimal backend, with steps that fail because of their tokens. A batch with the token 'X' is
// refused as a whole, and an entry with the token 'M' fails for lack of memory.
#include <algorithm>
#include <cstdio>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::MarkedResults;
using longstream::conformance::Minimal;
using longstream::conformance::Reads;

MarkedResults without_memory;

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  const ls_batch_entry* end = batch->entries + batch->num_entries;
  if (std::any_of(batch->entries, end, [](const auto& entry) { return Reads(entry, 'X'); })) {
    std::snprintf(error.text, error.capacity, "there is an X");
    return LS_INVALID_ARGUMENT;
  }
  const ls_code code = Minimal().submit(model, batch, ticket, error);
  if (code != LS_OK) return code;
  without_memory.Submitted(*ticket, *batch, 'M');
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Minimal().wait(model, ticket, results, error);
  if (code != LS_OK) return code;
  without_memory.Waited(ticket, results, [](ls_result& result, size_t) {
    result = ls_result{};
    result.code = LS_RESOURCE_EXHAUSTED;
    result.message = "lists of penalties";
    result.sampled = -1;
  });
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
