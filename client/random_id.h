// Draws ids of sessions and turns.
#ifndef LONGSTREAM_CLIENT_RANDOM_ID_H_
#define LONGSTREAM_CLIENT_RANDOM_ID_H_

#include <string>

namespace longstream::client {

// A random id of 128 bits: 32 hexadecimal digits.
std::string RandomId();

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_RANDOM_ID_H_
