// The configuration of a tenant.
#ifndef LONGSTREAM_SERVICE_CONFIG_TENANT_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_TENANT_CONFIG_H_

#include <cstdint>
#include <string>

namespace longstream {

// Limits of what a tenant uses at one time. 0: no limit.
struct TenantQuotas {
  uint64_t sessions = 0;           // open sessions, in memory and in the store
  uint64_t session_bytes = 0;      // of all its sessions and turns, on the host and on devices
  uint64_t tokens_per_minute = 0;  // of prompts and answers
  uint64_t turns = 0;              // that wait or run
  uint64_t transfers = 16;         // exports and imports that run
};

struct TenantConfig {
  std::string name;
  uint32_t weight = 1;  // its share of a model that is busy, in relation to the other weights
  TenantQuotas quotas;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_TENANT_CONFIG_H_
