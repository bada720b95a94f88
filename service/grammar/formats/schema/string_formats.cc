#include "service/grammar/formats/schema/string_formats.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"

namespace longstream {
namespace {

// RFC 3339. The last day of each month is right, also in leap years.
constexpr char kDate[] =
    R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|)"
    R"(02-(0[1-9]|1\d|2[0-8]))|)"
    R"((\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29))";
constexpr char kTime[] =
    R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";

// RFC 3339, appendix A.
constexpr char kDuration[] =
    R"(P(\d{1,9}W|)"
    R"((\d{1,9}Y(\d{1,9}M(\d{1,9}D)?)?|\d{1,9}M(\d{1,9}D)?|\d{1,9}D)(T$0)?|T$0))";
constexpr char kDurationTime[] = R"((\d{1,9}H(\d{1,9}M(\d{1,9}S)?)?|\d{1,9}M(\d{1,9}S)?|\d{1,9}S))";

constexpr char kUuid[] =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

// RFC 1123, at most 191 characters: up to three long labels, or up to six labels of 30 characters.
constexpr char kHostName[] = "($0(\\.$0){0,2}|$1(\\.$1){0,5})";
constexpr char kLongLabel[] = "[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?";
constexpr char kLabel[] = "[0-9A-Za-z]([0-9A-Za-z-]{0,28}[0-9A-Za-z])?";

// RFC 5321 without quoted names and without addresses in brackets. The name has at most 61
// characters.
constexpr char kMailName[] =
    R"([0-9A-Za-z!#$%&'*+/=?^_`{|}~-](\.?[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]){0,30})";

constexpr char kIpv4[] =
    R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3})";

// RFC 3986, section 3.2.2.
std::string Ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const std::string last = absl::StrCat("(", group, ":", group, "|", kIpv4, ")");
  std::string pattern = absl::StrCat("(", group, ":){6}", last);
  // `before` groups and "::", and `behind` groups and the last 32 bits.
  for (int behind = 5; behind >= 0; --behind) {
    const int before = 5 - behind;
    const std::string begin =
        before == 0 ? "" : absl::StrCat("(", group, "(:", group, "){0,", before - 1, "})?");
    absl::StrAppend(&pattern, "|", begin, "::(", group, ":){", behind, "}", last);
  }
  absl::StrAppend(&pattern, "|(", group, "(:", group, "){0,5})?::", group);
  absl::StrAppend(&pattern, "|(", group, "(:", group, "){0,6})?::");
  return pattern;
}

// RFC 3986 without addresses in brackets.
std::string Uri() {
  const std::string percent = "%[0-9A-Fa-f]{2}";
  const std::string plain = "[0-9A-Za-z._~!$&'()*+,;=-]";
  const std::string path = absl::StrCat("([0-9A-Za-z._~!$&'()*+,;=:@-]|", percent, ")");
  const std::string query = absl::StrCat("([0-9A-Za-z._~!$&'()*+,;=:@/?-]|", percent, ")*");
  const std::string user = absl::StrCat("(([0-9A-Za-z._~!$&'()*+,;=:-]|", percent, ")*@)?");
  const std::string host = absl::StrCat("(", plain, "|", percent, ")*");
  const std::string authority = absl::StrCat("//", user, host, "(:\\d{0,5})?(/", path, "*)*");
  const std::string absolute = absl::StrCat("/(", path, "+(/", path, "*)*)?");
  const std::string rootless = absl::StrCat(path, "+(/", path, "*)*");
  return absl::StrCat("[A-Za-z][0-9A-Za-z+.-]*:(", authority, "|", absolute, "|", rootless,
                      "|)(\\?", query, ")?(#", query, ")?");
}

}  // namespace

std::optional<std::string> PatternOfFormat(std::string_view format) {
  if (format == "date") return std::string(kDate);
  if (format == "time") return std::string(kTime);
  if (format == "date-time") return absl::StrCat(kDate, "T", kTime);
  if (format == "duration") return absl::Substitute(kDuration, kDurationTime);
  if (format == "uuid") return std::string(kUuid);
  std::string host = absl::Substitute(kHostName, kLongLabel, kLabel);
  if (format == "hostname") return host;
  if (format == "email") return absl::StrCat(kMailName, "@", host);
  if (format == "ipv4") return std::string(kIpv4);
  if (format == "ipv6") return Ipv6();
  if (format == "uri") return Uri();
  return std::nullopt;
}

}  // namespace longstream
