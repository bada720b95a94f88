// Apart from OpenModel, so that a program with an OpenModel of its own links it.
#include "backends/runtime/fitting_ops.h"

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/errors/error.h"

namespace longstream {

bool HasExpertOps(const OpTable& ops) {
  return ops.route != nullptr && ops.expert_hidden != nullptr && ops.expert_sum != nullptr;
}

std::string WhyOpsDoNotFit(const BackendDefinition& definition, const std::string& directory,
                           const OpTable& ops) {
  if (HasExpertOps(ops)) return "";
  try {
    if (!definition.plan(Config(directory), LoadOptions()).has_experts()) return "";
  } catch (const BackendError&) {  // OpenModel says what is wrong
    return "";
  }
  return "the ops " + std::string(ops.name) + " do not serve mixtures of experts";
}

}  // namespace longstream
