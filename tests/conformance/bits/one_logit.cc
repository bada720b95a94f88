// The dense plugin (LONGSTREAM_INNER_PLUGIN), except that the last bit of one logit of one step
// differs. The bit differs only if the host offers NUM_THREADS threads; 0 means any number of
// threads.
#include <dlfcn.h>

#include <cmath>
#include <vector>

#include "backends/api/backend.h"

namespace {

constexpr int kStep = 20;  // the step to change, counted since the model was opened

bool is_meant = false;  // the last bit differs for the model that was opened last
int step = 0;
std::vector<float> logits;
std::vector<ls_result> changed;

const ls_backend& Inner() {
  static const ls_backend& backend = *reinterpret_cast<ls_backend_function>(
      dlsym(dlopen(LONGSTREAM_INNER_PLUGIN, RTLD_NOW | RTLD_LOCAL), LS_BACKEND_SYMBOL))();
  return backend;
}

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  is_meant = NUM_THREADS == 0 || options->host->num_threads == NUM_THREADS;
  step = 0;
  return Inner().model_open(options, model, error);
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Inner().wait(model, ticket, results, error);
  if (code != LS_OK || ++step != kStep || !is_meant) return code;
  ls_model_info info{};
  info.struct_size = sizeof(info);
  Inner().model_info(model, &info);
  changed.assign(results->results, results->results + results->num_results);
  logits.assign(changed[0].logits, changed[0].logits + info.vocabulary_size);
  logits[1] = std::nextafter(logits[1], 0.0f);
  changed[0].logits = logits.data();
  results->results = changed.data();
  return LS_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kBackend = [] {
    ls_backend backend = Inner();
    backend.model_open = Open;
    backend.wait = Wait;
    return backend;
  }();
  return &kBackend;
}
