// Whether a kernel library has the ops that a model needs.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_FITTING_OPS_H_
#define LONGSTREAM_BACKENDS_RUNTIME_FITTING_OPS_H_

#include <string>

#include "backends/runtime/definition.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Whether the ops serve mixtures of experts.
bool HasExpertOps(const OpTable& ops);

// Why the ops cannot serve the model of a directory that the backend could serve with others.
// Empty: they can, as far as the config tells.
std::string WhyOpsDoNotFit(const BackendDefinition& definition, const std::string& directory,
                           const OpTable& ops);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_FITTING_OPS_H_
