// The spec of a dense Transformer: full attention in every layer.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_PLACEMENT_DENSE_PLAN_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_PLACEMENT_DENSE_PLAN_H_

#include <string>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// 100 for a family (architectures/families) with full attention in every layer, 10 for a family
// with windows; else 0 with the reason in *why.
int DenseFit(const Config& config, std::string* why);

// Serves the overrides logn, training_length and rope_scaling; other overrides make the model one
// of hwfa2. Throws BackendError.
ModelSpec DensePlan(const Config& config, const LoadOptions& options);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_PLACEMENT_DENSE_PLAN_H_
