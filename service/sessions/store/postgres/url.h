// Reads PostgreSQL URLs, without connecting.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_URL_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_URL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace longstream::store {

// The URL without its password and its other parameters, for logs and messages: host, port, user
// and database. INVALID_ARGUMENT: it is no such URL; the message does not repeat it.
absl::StatusOr<std::string> PublicName(const std::string& url);

// Parameters of libpq and their values. A parameter that is missing has libpq's default.
using PostgresParameters = std::vector<std::pair<std::string, std::string>>;

// The parameters of a URL for each of its hosts, in their order; at least one. If the lists of
// hosts, addresses and ports differ in length, they stay together, and libpq refuses them with its
// reason. INVALID_ARGUMENT: as for PublicName.
//
// libpq goes on to the next host only if the connection itself fails. A proxy in front of a primary
// that is gone takes the connection and closes it, and there libpq gives up. So each host is
// tried by a call of its own.
absl::StatusOr<std::vector<PostgresParameters>> HostsOf(const std::string& url);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_URL_H_
