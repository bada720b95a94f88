// Reads the file strictly: every key must be known and occur once.
#include "service/security/credentials.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace longstream {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// The keys of a row with their values.
using Fields = std::map<std::string, std::string>;

absl::Status Invalid(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// A wrong word may be a token, so no error repeats one.
absl::StatusOr<Fields> ReadFields(const std::vector<std::string>& words) {
  Fields fields;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string position = absl::StrCat("word ", i + 1);
    if (equals == std::string::npos) return Invalid(absl::StrCat(position, ": expected KEY=VALUE"));
    const std::string key = words[i].substr(0, equals);
    static constexpr const char* kKeys[] = {"name",   "role", "tenant", "expires",
                                            "sha256", "dns",  "uri",    "common_name"};
    const bool is_known = std::any_of(std::begin(kKeys), std::end(kKeys),
                                      [&key](const char* known) { return key == known; });
    if (!is_known) {
      return Invalid(absl::StrCat(position,
                                  ": unknown key; expected one of: name, role, tenant, expires, "
                                  "sha256, dns, uri, common_name"));
    }
    if (!fields.emplace(key, words[i].substr(equals + 1)).second) {
      return Invalid(absl::StrCat(key, ": occurs twice"));
    }
  }
  return fields;
}

// Takes the value of `key` out of the fields.
std::optional<std::string> Take(Fields* fields, const char* key) {
  const auto found = fields->find(key);
  if (found == fields->end()) return std::nullopt;
  std::string value = std::move(found->second);
  fields->erase(found);
  return value;
}

absl::StatusOr<std::string> TakeName(Fields* fields, const char* key, bool may_be_missing) {
  const std::optional<std::string> name = Take(fields, key);
  if (!name.has_value() && may_be_missing) return std::string();
  if (name.has_value() && IsCredentialName(*name)) return *name;
  return Invalid(absl::StrCat(key, ": expected 1 to 64 letters, digits, '.', '_' or '-'"));
}

absl::StatusOr<Role> TakeRole(Fields* fields) {
  const std::optional<Role> role = RoleNamed(Take(fields, "role").value_or(""));
  if (role.has_value()) return *role;
  return Invalid("role: expected client, operator or peer");
}

absl::StatusOr<absl::Time> TakeExpiry(Fields* fields) {
  const std::optional<std::string> text = Take(fields, "expires");
  absl::Time time = absl::InfiniteFuture();
  std::string error;
  if (!text.has_value() || absl::ParseTime(absl::RFC3339_full, *text, &time, &error)) return time;
  return Invalid("expires: expected a time such as 2027-01-31T00:00:00Z");
}

absl::StatusOr<TokenDigest> TakeDigest(Fields* fields) {
  const std::optional<TokenDigest> digest = DigestFromHex(Take(fields, "sha256").value_or(""));
  if (digest.has_value()) return *digest;
  return Invalid("sha256: expected 64 hexadecimal digits");
}

absl::StatusOr<CertificateName> TakeCertificateName(Fields* fields) {
  using Kind = CertificateName::Kind;
  std::vector<CertificateName> names;
  for (const auto& [key, kind] : {std::pair("dns", Kind::kDns), std::pair("uri", Kind::kUri),
                                  std::pair("common_name", Kind::kCommonName)}) {
    if (std::optional<std::string> value = Take(fields, key); value.has_value()) {
      names.push_back({kind, *std::move(value)});
    }
  }
  if (names.size() == 1 && !names[0].value.empty()) return names[0];
  return Invalid("expected one of dns=NAME, uri=URI and common_name=NAME");
}

}  // namespace

const char* NameOf(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kOperator:
      return "operator";
    case Role::kPeer:
      return "peer";
  }
  return "";
}

std::optional<Role> RoleNamed(std::string_view name) {
  for (const Role role : {Role::kClient, Role::kOperator, Role::kPeer}) {
    if (name == NameOf(role)) return role;
  }
  return std::nullopt;
}

bool IsCredentialName(std::string_view text) {
  constexpr size_t kMost = 64;
  return !text.empty() && text.size() <= kMost &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

absl::StatusOr<Credentials> Credentials::Parse(std::string_view text, std::string_view origin) {
  Credentials credentials;
  credentials.origin_ = std::string(origin);
  size_t number = 0;
  for (const absl::string_view whole : absl::StrSplit(View(text), '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty() || line.front() == '#') continue;
    absl::StatusOr<Row> row = ParseRow(std::string_view(line.data(), line.size()));
    if (row.ok()) row->line = number;
    const absl::Status status = row.ok() ? credentials.Add(*std::move(row)) : row.status();
    if (!status.ok()) {
      return Invalid(absl::StrCat(View(origin), ":", number, ": ", status.message()));
    }
  }
  return credentials;
}

absl::StatusOr<Credentials::Row> Credentials::ParseRow(std::string_view line) {
  const std::vector<std::string> words =
      absl::StrSplit(View(line), absl::ByAnyChar(" \t"), absl::SkipEmpty());
  const bool is_token = words[0] == "token";
  if (!is_token && words[0] != "certificate") {
    return Invalid("word 1: expected token or certificate");
  }
  absl::StatusOr<Fields> fields = ReadFields(words);
  if (!fields.ok()) return fields.status();
  absl::StatusOr<std::string> name = TakeName(&*fields, "name", /*may_be_missing=*/false);
  if (!name.ok()) return name.status();
  const absl::StatusOr<Role> role = TakeRole(&*fields);
  if (!role.ok()) return role.status();
  absl::StatusOr<std::string> tenant = TakeName(&*fields, "tenant", /*may_be_missing=*/true);
  if (!tenant.ok()) return tenant.status();
  const absl::StatusOr<absl::Time> expires = TakeExpiry(&*fields);
  if (!expires.ok()) return expires.status();
  Row row;
  row.caller = {*std::move(tenant), *role, *std::move(name)};
  row.expires = *expires;
  if (is_token) {
    const absl::StatusOr<TokenDigest> digest = TakeDigest(&*fields);
    if (!digest.ok()) return digest.status();
    row.token = *digest;
  } else {
    absl::StatusOr<CertificateName> certificate = TakeCertificateName(&*fields);
    if (!certificate.ok()) return certificate.status();
    row.certificate = *std::move(certificate);
  }
  if (fields->empty()) return row;
  return Invalid(
      absl::StrCat(fields->begin()->first, ": a row for a ", words[0], " does not have this key"));
}

absl::Status Credentials::Add(Row row) {
  if (rows_.size() == kMaxRows)
    return Invalid(absl::StrCat("expected at most ", kMaxRows, " rows"));
  for (const Row& other : rows_) {
    const bool same_token = row.token.has_value() && row.token == other.token;
    const bool same_name = row.certificate.has_value() && row.certificate == other.certificate;
    if (same_token || same_name) {
      return Invalid(absl::StrCat("an earlier row, of ", other.caller.name, ", has the same ",
                                  same_token ? "sha256" : "name of a certificate"));
    }
  }
  rows_.push_back(std::move(row));
  return absl::OkStatus();
}

absl::Status Credentials::CheckTenants(const std::vector<std::string>& tenants) const {
  for (const Row& row : rows_) {
    const std::string& tenant = row.caller.tenant;
    std::string error;
    if (tenant.empty()) {
      if (row.caller.role == Role::kClient) error = "a client needs one of the configured tenants";
    } else if (std::find(tenants.begin(), tenants.end(), tenant) == tenants.end()) {
      error = absl::StrCat("the configuration has no tenant '", tenant, "'");
    }
    if (error.empty()) continue;
    return Invalid(absl::StrCat(origin_, ":", row.line, ": tenant: ", error));
  }
  return absl::OkStatus();
}

std::optional<Caller> Credentials::ByToken(std::string_view token, absl::Time now) const {
  const TokenDigest digest = DigestOf(token);
  const Row* found = nullptr;
  for (const Row& row : rows_) {
    if (row.token.has_value() && AreEqual(*row.token, digest)) found = &row;
  }
  if (found == nullptr || found->expires <= now) return std::nullopt;
  return found->caller;
}

std::optional<Caller> Credentials::ByCertificate(const std::vector<CertificateName>& names,
                                                 absl::Time now) const {
  for (const Row& row : rows_) {
    if (!row.certificate.has_value()) continue;
    if (std::find(names.begin(), names.end(), *row.certificate) == names.end()) continue;
    if (row.expires <= now) return std::nullopt;
    return row.caller;
  }
  return std::nullopt;
}

}  // namespace longstream
