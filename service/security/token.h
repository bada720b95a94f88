// Bearer tokens, and the digests that the server keeps of them.
#ifndef LONGSTREAM_SERVICE_SECURITY_TOKEN_H_
#define LONGSTREAM_SERVICE_SECURITY_TOKEN_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// SHA-256 of a token. A token has 256 random bits, so nobody finds it from its digest, and a slow
// hash as for passwords would only cost time at each call.
using TokenDigest = std::array<unsigned char, 32>;

// Draws a token: "lst_" and 64 hexadecimal digits. Empty if the system gives no random bytes.
std::string NewToken();

TokenDigest DigestOf(std::string_view token);
// Whether the digests are equal, in a time that does not depend on where they differ.
bool AreEqual(const TokenDigest& one, const TokenDigest& other);

// 64 lower-case hexadecimal digits.
std::string ToHex(const TokenDigest& digest);
std::optional<TokenDigest> DigestFromHex(std::string_view hex);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_TOKEN_H_
