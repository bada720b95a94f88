// The layer plan of HypeNet: linear RNN layers with rotary positions among attention layers
// without (HyPE). Two profiles, `published` and `chunked`; docs/models.md has the equations.
#ifndef LONGSTREAM_BACKENDS_HYPENET_HYPENET_PLAN_H_
#define LONGSTREAM_BACKENDS_HYPENET_HYPENET_PLAN_H_

#include <string>

#include "backends/common/layers/model_spec.h"
#include "backends/common/weights/config.h"
#include "backends/common/weights/load_options.h"

namespace longstream {

// 100 for model_type hypenet and for the architectures HypeNetForCausalLM and HybridForCausalLM,
// else 0 with the reason in *why.
int HypenetFit(const Config& config, std::string* why);

// Serves no override but context_limit. Throws BackendError.
ModelSpec HypenetPlan(const Config& config, const LoadOptions& options);

// Of a config whose base (TransformerSpec) is in *spec: the layers of one profile.
void PublishedLayers(const Config& config, ModelSpec* spec);
void ChunkedLayers(const Config& config, const LoadOptions& options, ModelSpec* spec);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_HYPENET_HYPENET_PLAN_H_
