// Philox4x32-10, a counter-based random number generator: four random words as a pure function of a
// counter and a key (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
#ifndef LONGSTREAM_KERNELS_CORE_PHILOX_H_
#define LONGSTREAM_KERNELS_CORE_PHILOX_H_

#include <array>
#include <cstdint>

namespace longstream {

// The constants are numbers and not arrays: an array of the host has no address on a GPU, and nvcc
// compiles an expression that refers to one into a trap.
inline constexpr int kPhiloxRounds = 10;
inline constexpr uint64_t kPhiloxMultiplier0 = 0xd2511f53;
inline constexpr uint64_t kPhiloxMultiplier1 = 0xcd9e8d57;
inline constexpr uint32_t kPhiloxKeyStep0 = 0x9e3779b9;
inline constexpr uint32_t kPhiloxKeyStep1 = 0xbb67ae85;

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = kPhiloxMultiplier0 * counter[0];
    const uint64_t b = kPhiloxMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + kPhiloxKeyStep0, key[1] + kPhiloxKeyStep1};
  }
  return counter;
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_PHILOX_H_
