// The experts that the rows of a step use.
#include "kernels/cpu/experts/active_experts.h"

namespace longstream::cpu::LONGSTREAM_ISA {

ActiveExperts FindActiveExperts(const Routes& routes, const Expert* experts, std::byte* memory) {
  ActiveExperts active = {reinterpret_cast<ActiveExpert*>(memory), 0};
  size_t hidden = 0;
  for (int64_t e = 0; e < routes.num_experts; ++e) {
    const int64_t num_routes = routes.first[e + 1] - routes.first[e];
    if (num_routes == 0) continue;
    active.data[active.count++] = {
        .expert = &experts[e],
        .first_route = routes.first[e],
        .num_routes = num_routes,
        .hidden = hidden,
    };
    hidden += PreparedBytes(num_routes, experts[e].down.k);
  }
  return active;
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
