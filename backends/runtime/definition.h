// What distinguishes one backend from another: a name, what it serves, and its layer plan.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_DEFINITION_H_
#define LONGSTREAM_BACKENDS_RUNTIME_DEFINITION_H_

#include <string>

#include "backends/spec/model_spec.h"

namespace longstream {

class Config;       // checkpoint/config.h: config.json, read strictly
class LoadOptions;  // checkpoint/load_options.h: the options of model_open

struct BackendDefinition {
  const char* name;  // "dense"
  const char* version;

  // 0 ... 100 as ls_backend.probe; where 0, *why says in one sentence what is not served.
  int (*fit)(const Config& config, std::string* why);

  // The layer plan. Throws BackendError naming file, key, expected and found. Unknown keys that
  // change the mathematics are refused by name.
  ModelSpec (*plan)(const Config& config, const LoadOptions& options);
};

// Each backend defines this once, in backends/<name>/<name>.cc; the shim in this folder exports the
// ABI around it.
const BackendDefinition& Definition();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_DEFINITION_H_
