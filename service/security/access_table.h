// The table of methods and roles.
#ifndef LONGSTREAM_SERVICE_SECURITY_ACCESS_TABLE_H_
#define LONGSTREAM_SERVICE_SECURITY_ACCESS_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "service/security/caller.h"

namespace longstream {

// A table with a row for each method of each service. A method without a row is refused for
// everybody. Immutable, so thread-safe.
class AccessTable {
 public:
  enum class Answer {
    kOpen,       // everybody may call the method, without a credential too
    kRoles,      // Allows says which roles may
    kForbidden,  // the method has no row
  };

  // `open_health`: everybody may call Check of the health service, as Kubernetes does without a
  // credential. Watch holds a stream, so it always needs one.
  explicit AccessTable(bool open_health) : open_health_(open_health) {}

  // `method` is the path of a method, such as "/longstream.v1.Longstream/GetModel".
  Answer Find(std::string_view method) const;
  bool Allows(std::string_view method, Role role) const;

  // FAILED_PRECONDITION: one of the methods has no row, and the message names it.
  absl::Status CheckHasRows(const std::vector<std::string>& methods) const;

  // The methods that have a row.
  static std::vector<std::string_view> Methods();

 private:
  const bool open_health_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_ACCESS_TABLE_H_
