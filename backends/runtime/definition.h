// The definition of a backend: its name, the configs that it serves and how it makes a spec.
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

  // 0 ... 100 as ls_backend.probe. If it is 0, *why is a sentence that says what is not served.
  int (*fit)(const Config& config, std::string* why);

  // Makes the spec. Throws BackendError naming file, key, expected and found. Refuses, by name,
  // unknown keys that change the mathematics.
  ModelSpec (*plan)(const Config& config, const LoadOptions& options);
};

// Each backend defines this once, in backends/<name>/<name>.cc. c_abi.cc wraps it in
// the ABI.
const BackendDefinition& Definition();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_DEFINITION_H_
