// This file is compiled with the flags of AMX. Only the tile products may use its instructions.
#include "tests/bench/amx_peak.h"

#include <immintrin.h>

namespace longstream {
namespace {

constexpr int kRows = 16;      // of a tile
constexpr int kRowBytes = 64;  // of a row of a tile
constexpr int kSums = kRows * kRowBytes / 4;
constexpr int kTiles = 4;  // tiles of sums, whose products do not depend on each other

// Configures the thread's tiles while it lives: eight tiles of 16 rows of 64 bytes.
class Tiles {
 public:
  Tiles() {
    struct alignas(64) {
      uint8_t palette = 1;
      uint8_t reserved[15] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(config) == 64);
    for (int tile = 0; tile < 8; ++tile) {
      config.row_bytes[tile] = kRowBytes;
      config.rows[tile] = kRows;
    }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  float Sum() const {
    alignas(64) float sums[kSums];
    _tile_stored(0, sums, kRowBytes);
    float total = 0;
    for (const float sum : sums) total += sum;
    return total;
  }
};

// Returns the operations of products whose inputs have `depth` numbers in each row.
double Operations(int64_t iterations, int depth) {
  return 2.0 * kTiles * kSums * depth * static_cast<double>(iterations);
}

}  // namespace

double TileProductsBF16(int64_t iterations, float* result) {
  const Tiles tiles;
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  *result = tiles.Sum();
  return Operations(iterations, kRowBytes / 2);
}

double TileProductsOfNumbers(int64_t iterations, float* result) {
  alignas(64) uint16_t numbers[kTiles][kRows * kRowBytes / 2];
  uint32_t random = 1;
  for (auto& tile : numbers) {
    for (uint16_t& number : tile) {
      random = random * 1664525u + 1013904223u;
      constexpr uint32_t kSignAndMantissa = 0x807f, kExponents = 7, kLowest = 120 << 7;
      number = static_cast<uint16_t>((random >> 16 & kSignAndMantissa) |
                                     (kLowest + ((random >> 8 & kExponents) << 7)));
    }
  }
  const Tiles tiles;
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_loadd(4, numbers[0], kRowBytes);
    _tile_loadd(6, numbers[1], kRowBytes);
    _tile_loadd(5, numbers[2], kRowBytes);
    _tile_loadd(7, numbers[3], kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  *result = tiles.Sum();
  return Operations(iterations, kRowBytes / 2);
}

double TileProductsInt8(int64_t iterations, float* result) {
  const Tiles tiles;
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  *result = tiles.Sum();
  return Operations(iterations, kRowBytes);
}

}  // namespace longstream
