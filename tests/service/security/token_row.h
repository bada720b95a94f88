// Rows of a file of credentials for tests.
#ifndef LONGSTREAM_TESTS_SERVICE_SECURITY_TOKEN_ROW_H_
#define LONGSTREAM_TESTS_SERVICE_SECURITY_TOKEN_ROW_H_

#include <string>

#include "service/security/token.h"

namespace longstream {

// A line for the token `token`. `words`: the other keys, such as "name=alice role=client".
inline std::string RowFor(const std::string& token, const std::string& words) {
  return "token " + words + " sha256=" + ToHex(DigestOf(token)) + "\n";
}

// A line for the token `token`, which is also its name. `words`: the other keys.
inline std::string TokenRow(const std::string& token, const std::string& words) {
  return RowFor(token, "name=" + token + " " + words);
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SECURITY_TOKEN_ROW_H_
