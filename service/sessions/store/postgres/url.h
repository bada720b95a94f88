// Reads PostgreSQL URLs, without connecting.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_URL_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_URL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longstream::store {

// The URL without its password and its other parameters, for logs and messages: host, port, user
// and database. INVALID_ARGUMENT: it is no such URL; the message does not repeat it.
absl::StatusOr<std::string> PublicName(const std::string& url);

// One place to connect to, as libpq's parameters of the same names say it. Empty: libpq's default.
struct PostgresHost {
  std::string host, hostaddr, port;
};

// The hosts of a URL in their order; at least one. A URL that libpq cannot read, or whose lists
// differ in length, gives one host without a name: libpq then refuses the URL as a whole.
//
// libpq goes on to the next host only if the connection itself fails. A proxy in front of a primary
// that is gone takes the connection and closes it, and there libpq gives up. So each host is
// tried by a call of its own.
std::vector<PostgresHost> HostsOf(const std::string& url);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_URL_H_
