// Rows of a file of credentials for tests.
#ifndef LONGSTREAM_TESTS_SERVICE_SECURITY_TOKEN_ROW_H_
#define LONGSTREAM_TESTS_SERVICE_SECURITY_TOKEN_ROW_H_

#include <string>

#include "service/security/token.h"

namespace longstream {

// A line for the token `token`, which is also its name. `words`: the other keys, such as
// "role=client".
inline std::string TokenRow(const std::string& token, const std::string& words) {
  return "token name=" + token + " " + words + " sha256=" + ToHex(DigestOf(token)) + "\n";
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SECURITY_TOKEN_ROW_H_
