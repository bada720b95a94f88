#include "service/sessions/store/postgres/url.h"

#include <libpq-fe.h>

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace longstream::store {
namespace {

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

absl::Status CannotRead() {
  return absl::InvalidArgumentError(
      "expected postgresql://USER@HOST:PORT/DATABASE, found a URL that cannot be read; in a "
      "password, all but letters and digits are written as %XX");
}

// The values of a parameter, separated by commas. Empty: the parameter is not set.
std::vector<std::string> ListOf(const PQconninfoOption* options, const std::string& keyword) {
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->keyword == keyword && option->val != nullptr && *option->val != '\0') {
      return absl::StrSplit(option->val, ',');
    }
  }
  return {};
}

}  // namespace

absl::StatusOr<std::string> PublicName(const std::string& url) {
  const std::unique_ptr<PQconninfoOption, FreeOptions> options(
      PQconninfoParse(url.c_str(), nullptr));
  // libpq's message may quote a part of the URL.
  if (options == nullptr) return CannotRead();
  std::string host, port, user, database;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    const std::string keyword = option->keyword, value = option->val ? option->val : "";
    if (keyword == "host") host = value;
    if (keyword == "port") port = value;
    if (keyword == "user") user = value;
    if (keyword == "dbname") database = value;
  }
  // In such a URL a part of the password would be read as something else.
  const bool is_odd = absl::StrContains(host, "@") || absl::StrContains(database, "@") ||
                      port.find_first_not_of("0123456789,") != std::string::npos;
  if (is_odd) return CannotRead();
  return absl::StrCat("postgresql://", user, user.empty() ? "" : "@", host, port.empty() ? "" : ":",
                      port, "/", database);
}

std::vector<PostgresHost> HostsOf(const std::string& url) {
  const std::unique_ptr<PQconninfoOption, FreeOptions> options(
      PQconninfoParse(url.c_str(), nullptr));
  if (options == nullptr) return {PostgresHost{}};
  const std::vector<std::string> hosts = ListOf(options.get(), "host");
  const std::vector<std::string> addresses = ListOf(options.get(), "hostaddr");
  const std::vector<std::string> ports = ListOf(options.get(), "port");
  const size_t count = std::max(hosts.size(), addresses.size());
  const bool fits = (hosts.empty() || hosts.size() == count) &&
                    (addresses.empty() || addresses.size() == count) &&
                    (ports.size() <= 1 || ports.size() == count);
  if (count < 2 || !fits) return {PostgresHost{}};
  std::vector<PostgresHost> result(count);
  for (size_t i = 0; i < count; ++i) {
    if (!hosts.empty()) result[i].host = hosts[i];
    if (!addresses.empty()) result[i].hostaddr = addresses[i];
    if (!ports.empty()) result[i].port = ports.size() == 1 ? ports[0] : ports[i];
  }
  return result;
}

}  // namespace longstream::store
