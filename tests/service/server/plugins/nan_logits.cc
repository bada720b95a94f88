// The minimal backend, with arithmetic that overflows. An entry that feeds the token 0 has NaN
// logits: no token can be drawn, and no log-probability is a number. An entry that feeds the token
// 1 is refused, as if its penalties left no token.
#include <array>
#include <limits>
#include <vector>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::MarkedResults;
using longstream::conformance::Minimal;

MarkedResults overflows;
MarkedResults refusals;
// The log-probabilities of the two tickets that may be in flight.
std::array<std::vector<std::vector<float>>, 2> log_probs;

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  const ls_code code = Minimal().submit(model, batch, ticket, error);
  if (code != LS_OK) return code;
  overflows.Submitted(*ticket, *batch, 0);
  refusals.Submitted(*ticket, *batch, 1);
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Minimal().wait(model, ticket, results, error);
  if (code != LS_OK) return code;
  std::vector<std::vector<float>>& rows = log_probs[ticket % 2];
  rows.assign(results->num_results, {});
  overflows.Waited(ticket, results, [&](ls_result& result, size_t i) {
    result.sampled = -1;
    rows[i].assign(result.num_log_prob_rows, std::numeric_limits<float>::quiet_NaN());
    result.log_probs = rows[i].data();
  });
  refusals.Waited(ticket, results, [](ls_result& result, size_t) {
    result = ls_result{};
    result.code = LS_INVALID_ARGUMENT;
    result.message = "penalties: they leave no token";
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
