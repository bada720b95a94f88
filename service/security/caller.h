// The caller of a method, as far as the server knows.
#ifndef LONGSTREAM_SERVICE_SECURITY_CALLER_H_
#define LONGSTREAM_SERVICE_SECURITY_CALLER_H_

#include <string>

namespace longstream {

// The role decides which methods a caller may call. One role does not include another.
enum class Role {
  kClient,    // uses its tenant's sessions
  kOperator,  // runs the server
  kPeer,      // another replica of the server
};

struct Caller {
  // The tenant whose sessions the caller may use. Empty where the server's configuration names no
  // tenants.
  std::string tenant;
  Role role = Role::kClient;
  // Names the credential in logs. Empty where the server asks for none.
  std::string name;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_CALLER_H_
