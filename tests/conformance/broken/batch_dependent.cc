// A plugin with a defect: the last bit of one logit depends on the number of sequences in the
// batch.
#include <cmath>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;
using longstream::conformance::SpoiledResults;

constexpr uint32_t kVocabulary = 256;

SpoiledResults& Spoiled() {
  static SpoiledResults spoiled;
  return spoiled;
}

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  const ls_code code = Minimal().submit(model, batch, ticket, error);
  if (code == LS_OK) Spoiled().Submitted(*ticket, *batch);
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Minimal().wait(model, ticket, results, error);
  if (code != LS_OK) return code;
  Spoiled().Waited(ticket, kVocabulary, results,
                   [](std::vector<float>& logits, const ls_batch& batch, size_t) {
                     if (batch.num_entries > 1) logits[0] = std::nextafter(logits[0], 100.0f);
                   });
  return LS_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kBackend = [] {
    ls_backend backend = Minimal();
    backend.submit = Submit;
    backend.wait = Wait;
    return backend;
  }();
  return &kBackend;
}
