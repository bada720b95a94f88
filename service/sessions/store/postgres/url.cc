// By libpq's own parser.
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
using Options = std::unique_ptr<PQconninfoOption, FreeOptions>;

absl::Status CannotRead() {
  return absl::InvalidArgumentError(
      "expected postgresql://USER@HOST:PORT/DATABASE, found a URL that cannot be read; in a "
      "password, all but letters and digits are written as %XX");
}

// libpq's message may quote a part of the URL.
absl::StatusOr<Options> Parse(const std::string& url) {
  Options options(PQconninfoParse(url.c_str(), nullptr));
  if (options == nullptr) return CannotRead();
  return options;
}

// Empty: the URL does not have it.
std::string ValueOf(const Options& options, const std::string& keyword) {
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->keyword == keyword && option->val != nullptr) return option->val;
  }
  return "";
}

std::vector<std::string> ListOf(const Options& options, const std::string& keyword) {
  const std::string value = ValueOf(options, keyword);
  if (value.empty()) return {};
  return absl::StrSplit(value, ',');
}

void Set(const char* keyword, const std::string& value, PostgresParameters* parameters) {
  if (!value.empty()) parameters->emplace_back(keyword, value);
}

}  // namespace

absl::StatusOr<std::string> PublicName(const std::string& url) {
  const absl::StatusOr<Options> options = Parse(url);
  if (!options.ok()) return options.status();
  const std::string host = ValueOf(*options, "host"), port = ValueOf(*options, "port"),
                    user = ValueOf(*options, "user"), database = ValueOf(*options, "dbname");
  // In such a URL a part of the password would be read as something else.
  const bool is_odd = absl::StrContains(host, "@") || absl::StrContains(database, "@") ||
                      port.find_first_not_of("0123456789,") != std::string::npos;
  if (is_odd) return CannotRead();
  return absl::StrCat("postgresql://", user, user.empty() ? "" : "@", host, port.empty() ? "" : ":",
                      port, "/", database);
}

absl::StatusOr<std::vector<PostgresParameters>> HostsOf(const std::string& url) {
  const absl::StatusOr<Options> options = Parse(url);
  if (!options.ok()) return options.status();
  PostgresParameters whole, common;
  for (const PQconninfoOption* option = options->get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string keyword = option->keyword;
    whole.emplace_back(keyword, option->val);
    if (keyword != "host" && keyword != "hostaddr" && keyword != "port") {
      common.push_back(whole.back());
    }
  }
  std::vector<std::string> hosts = ListOf(*options, "host"),
                           addresses = ListOf(*options, "hostaddr"),
                           ports = ListOf(*options, "port");
  const size_t count = std::max(hosts.size(), addresses.size());
  if (hosts.empty()) hosts.resize(count);
  if (addresses.empty()) addresses.resize(count);
  if (ports.size() <= 1) ports.resize(count, ports.empty() ? "" : ports[0]);
  const bool fits = hosts.size() == count && addresses.size() == count && ports.size() == count;
  if (count < 2 || !fits) return std::vector<PostgresParameters>{whole};
  std::vector<PostgresParameters> result(count, common);
  for (size_t i = 0; i < count; ++i) {
    Set("host", hosts[i], &result[i]);
    Set("hostaddr", addresses[i], &result[i]);
    Set("port", ports[i], &result[i]);
  }
  return result;
}

}  // namespace longstream::store
