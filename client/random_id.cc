// Draws ids from the random source of the operating system.
#include "client/random_id.h"

#include <cstdint>
#include <random>

namespace longstream::client {

std::string RandomId() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    const uint32_t bits = random();
    for (int shift = 0; shift < 32; shift += 4) id += kDigits[(bits >> shift) & 0xf];
  }
  return id;
}

}  // namespace longstream::client
