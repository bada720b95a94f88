// The credentials that the server accepts: a file with a row for each token and each certificate.
#ifndef LONGSTREAM_SERVICE_SECURITY_CREDENTIALS_H_
#define LONGSTREAM_SERVICE_SECURITY_CREDENTIALS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/security/caller.h"
#include "service/security/token.h"

namespace longstream {

// A name in a client's certificate.
struct CertificateName {
  enum class Kind { kDns, kUri, kCommonName };

  Kind kind = Kind::kDns;
  std::string value;

  bool operator==(const CertificateName&) const = default;
};

// "client", "operator" or "peer".
const char* NameOf(Role role);
std::optional<Role> RoleNamed(std::string_view name);
// Whether a text may be the name of a credential or of a tenant: 1 to 64 letters, digits, '.', '_'
// and '-'.
bool IsCredentialName(std::string_view text);

// Each line of the file is empty, a comment that begins with '#', or a row:
//
//   token name=NAME role=ROLE [tenant=TENANT] [expires=TIME] sha256=DIGEST
//   certificate name=NAME role=ROLE [tenant=TENANT] [expires=TIME] dns=|uri=|common_name=VALUE
//
// TIME is in the format of RFC 3339. Two rows may have the same name, for example while a token is
// being replaced. Immutable, so thread-safe.
class Credentials {
 public:
  static constexpr size_t kMaxRows = 4096;
  // The limit of the file's size.
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // INVALID_ARGUMENT: "ORIGIN:LINE: what is wrong". The message does not repeat a digest, because
  // it may be a token that was put there by mistake.
  static absl::StatusOr<Credentials> Parse(std::string_view text, std::string_view origin);

  // INVALID_ARGUMENT: "ORIGIN:LINE: ...": a row names a tenant that is not in `tenants`, or a
  // client's row names none. REQUIRES: `tenants` are those of the configuration, at least one.
  absl::Status CheckTenants(const std::vector<std::string>& tenants) const;

  // The caller who has this token. Compares with every row, so the time tells nothing about the
  // rows but their number. Empty if no row has the token or the row has expired.
  std::optional<Caller> ByToken(std::string_view token, absl::Time now) const;
  // The caller of the first row with one of these names, if it has not expired.
  std::optional<Caller> ByCertificate(const std::vector<CertificateName>& names,
                                      absl::Time now) const;

  size_t size() const { return rows_.size(); }

 private:
  struct Row {
    Caller caller;
    absl::Time expires = absl::InfiniteFuture();
    std::optional<TokenDigest> token;
    std::optional<CertificateName> certificate;
    size_t line = 0;  // of the file
  };

  static absl::StatusOr<Row> ParseRow(std::string_view line);
  absl::Status Add(Row row);

  std::string origin_;
  std::vector<Row> rows_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_CREDENTIALS_H_
