// A model's description of itself in the ABI: its layers, its bytes, its fingerprint.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_MODEL_DESCRIPTION_H_
#define LONGSTREAM_BACKENDS_RUNTIME_MODEL_DESCRIPTION_H_

#include <string>
#include <vector>

#include "backends/api/backend.h"
#include "backends/caches/cache_layout.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Owns the data that info() points to, except the ops' name, which lives as long as the plugin.
// Immutable.
class ModelDescription {
 public:
  ModelDescription(const ModelSpec& spec, const ModelWeights& weights, const CacheLayout& layout,
                   const OpTable& ops);

  ModelDescription(const ModelDescription&) = delete;
  ModelDescription& operator=(const ModelDescription&) = delete;

  const ls_model_info& info() const { return info_; }

 private:
  const std::string architecture_;
  std::vector<ls_layer_info> layers_;
  ls_model_info info_{};
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_MODEL_DESCRIPTION_H_
