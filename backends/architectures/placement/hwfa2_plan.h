// The spec of hybrid window and full attention: HWFA, HWFA2, and any dense checkpoint that
// load-time overrides turn into one.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_PLACEMENT_HWFA2_PLAN_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_PLACEMENT_HWFA2_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// 100 for model_type hwfa2; 40 for the dense families, which hwfa2 serves with overrides (without
// overrides the backend dense serves them); else 0 with the reason in *why.
int Hwfa2Fit(const Config& config, std::string* why);

// Serves every override that has a layer to act on. Throws BackendError.
ModelSpec Hwfa2Plan(const Config& config, const LoadOptions& options);

// The placement rule of HWFA2: of L layers, f are full attention, at floor(k L / (f + 1)), k = 1
// ... f. REQUIRES: 0 <= f <= L.
std::vector<int64_t> PlaceFullLayers(int64_t num_layers, int64_t num_full_layers);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_PLACEMENT_HWFA2_PLAN_H_
