// The command `longstream token`, which makes tokens without a server.
#include "service/security/token.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/output.h"
#include "service/security/credentials.h"

namespace longstream::client {
namespace {

struct TokenOptions {
  std::string name;
  std::string role = "client";
  std::string tenant;
  std::string expires;
};

// Returns the expiry as the file of credentials has it: a time, or a duration from now. Throws
// CLI::ValidationError.
std::string ExpiryOf(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration)) {
    return absl::FormatTime(absl::RFC3339_sec, absl::Now() + duration, absl::UTCTimeZone());
  }
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return text;
  throw CLI::ValidationError("--expires",
                             "expected a time such as 2027-01-31T00:00:00Z, or a duration such as "
                             "720h, found '" +
                                 text + "'");
}

void New(const Global& global, const TokenOptions& options) {
  const std::string token = NewToken();
  if (token.empty()) {
    std::cerr << "longstream: the system gives no random bytes\n";
    throw ToldFailure{kCallFailed};
  }
  const std::pair<const char*, const std::string*> values[] = {{"--name", &options.name},
                                                               {"--role", &options.role},
                                                               {"--tenant", &options.tenant},
                                                               {"--expires", &options.expires}};
  for (const auto& [option, value] : values) {
    if (value->find_first_of(" \t\r\n#") == std::string::npos) continue;
    throw CLI::ValidationError(option, "'" + *value + "' has a space or a '#'");
  }
  std::string row = "token name=" + options.name + " role=" + options.role;
  if (!options.tenant.empty()) row += " tenant=" + options.tenant;
  if (!options.expires.empty()) row += " expires=" + ExpiryOf(options.expires);
  row += " sha256=" + ToHex(DigestOf(token));
  // The server reads the row in the same way.
  const absl::StatusOr<Credentials> read = Credentials::Parse(row, "token new");
  if (!read.ok()) throw CLI::ValidationError(std::string(read.status().message()));
  if (global.json) {
    return Print(nlohmann::json({{"token", token}, {"row", row}}).dump() + "\n");
  }
  Print("The token, which is not shown again:\n" + token +
        "\nThe row for the server's file of credentials:\n" + row + "\n");
}

}  // namespace

void AddToken(CLI::App* app, const Global* global) {
  CLI::App* const token = app->add_subcommand("token", "make tokens");
  token->require_subcommand(1);
  const auto options = std::make_shared<TokenOptions>();
  CLI::App* const made = token->add_subcommand(
      "new", "draw a token, and print it with the row for the server's file of credentials");
  made->add_option("--name", options->name, "names the token in logs")->required();
  made->add_option("--role", options->role, "client, operator or peer")->capture_default_str();
  made->add_option("--tenant", options->tenant, "whose sessions the token uses");
  made->add_option("--expires", options->expires,
                   "a time such as 2027-01-31T00:00:00Z, or a duration such as 720h; none: never");
  made->callback([global, options] { New(*global, *options); });
}

}  // namespace longstream::client
