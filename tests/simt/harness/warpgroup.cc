// Computes products of a warpgroup, at once or when they are waited for.
#include "tests/simt/harness/warpgroup.h"

#include <bit>
#include <cstring>

#include "tests/simt/harness/launch_limits.h"
#include "tests/simt/harness/tensor_sum.h"

namespace longstream::simt {
namespace {

constexpr int kAtomRows = 8;    // rows of the pattern that swizzling repeats
constexpr int kAtomWidth = 64;  // bf16 numbers in 128 bytes
constexpr size_t kRowBytes = 128;
constexpr size_t kElementBytes = 2;

// A field of a descriptor: 14 bits from `first` on, in units of 16 bytes.
size_t BytesAt(uint64_t matrix, int first) { return (matrix >> first & 0x3fff) * 16; }

float Widen(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float At(const std::byte* shared, size_t place) {
  uint16_t bits = 0;
  std::memcpy(&bits, shared + place, sizeof(bits));
  return Widen(bits);
}

// Element k of row `row` of A.
float OfA(const Products::Given& given, const std::byte* shared, int row, int k) {
  if (given[0].a == nullptr) return At(shared, PlaceOf(given[0].a_matrix, false, row, k));
  // Row g + 8 of a warp is in the odd registers; columns from 8 on are in the last two.
  const int lane = row % 8 * 4 + k % 8 / 2;
  const int from = row / 16 * 32 + lane;
  const uint32_t pair = given[static_cast<size_t>(from)].a[row % 16 / 8 + k / 8 * 2];
  return Widen(static_cast<uint16_t>(k % 2 == 0 ? pair : pair >> 16));
}

}  // namespace

size_t PlaceOf(uint64_t matrix, bool is_mn_major, int mn, int k) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kKnown =
      kSwizzle128 | 0x3fff | uint64_t{0x3fff} << 16 | uint64_t{0x3fff} << 32;
  if ((matrix & ~kKnown) != 0 || (matrix & kSwizzle128) == 0) {
    Fail("a matrix of a product that is not swizzled by 128 bytes from a base offset of 0 on");
  }
  const size_t leading = BytesAt(matrix, 16), stride = BytesAt(matrix, 32);
  size_t at_byte = BytesAt(matrix, 0);
  const auto number = [](int x) { return static_cast<size_t>(x); };
  if (is_mn_major) {
    at_byte += number(mn / kAtomWidth) * leading + number(k / kAtomRows) * stride;
    at_byte += number(k % kAtomRows) * kRowBytes + number(mn % kAtomWidth) * kElementBytes;
  } else {
    at_byte += number(mn / kAtomRows) * stride;
    at_byte += number(mn % kAtomRows) * kRowBytes + number(k) * kElementBytes;
  }
  // Swizzle: in each 1024 bytes, the number of a 128-byte row permutes the 16-byte pieces of that
  // row.
  return at_byte ^ (at_byte >> 7 & 7) << 4;
}

void Products::Compute(const Given& given, const std::byte* shared) {
  const Product& of_all = given[0];
  std::vector<float> b(static_cast<size_t>(of_all.columns * kProductDepth));
  for (int n = 0; n < of_all.columns; ++n) {
    for (int k = 0; k < kProductDepth; ++k) {
      b[static_cast<size_t>(n * kProductDepth + k)] =
          At(shared, PlaceOf(of_all.b_matrix, of_all.b_is_mn_major, n, k));
    }
  }
  for (int row = 0; row < kProductRows; ++row) {
    double a[kProductDepth];
    for (int k = 0; k < kProductDepth; ++k) a[k] = OfA(given, shared, row, k);
    for (int n = 0; n < of_all.columns; ++n) {
      const int thread = row / 16 * 32 + row % 8 * 4 + n % 8 / 2;
      float& d = given[static_cast<size_t>(thread)].d[n / 8 * 4 + row % 16 / 8 * 2 + n % 2];
      double addends[kProductDepth + 1];
      const float* column = b.data() + n * kProductDepth;
      for (int k = 0; k < kProductDepth; ++k) addends[k] = a[k] * double{column[k]};
      addends[kProductDepth] = of_all.adds ? double{d} : 0.0;
      d = TensorSum(addends);
    }
  }
}

void Products::Issue(const Given& given, const std::byte* shared, const std::byte* visible) {
  if (!is_fenced_) Fail("a product of a warpgroup without a fence before it");
  const Product& first = given[0];
  for (const Product& other : given) {
    if (other.columns != first.columns || other.a_matrix != first.a_matrix ||
        other.b_matrix != first.b_matrix || other.adds != first.adds ||
        other.b_is_mn_major != first.b_is_mn_major ||
        (other.a == nullptr) != (first.a == nullptr)) {
      Fail("a product whose operands differ between the threads of a warpgroup");
    }
  }
  // Which groups are computed at once does not simply alternate. If it did, a kernel that
  // alternates between two products would always have the same one of them computed at once.
  const bool at_once = std::popcount(commits_) % 2 != 0;
  for (Issued& earlier : issued_) {
    if (!at_once || earlier.is_done || earlier.given[0].d != first.d) continue;
    Compute(earlier.given, earlier.shared);
    earlier.is_done = true;
  }
  issued_.push_back({given, shared, at_once, commits_});
  if (at_once) Compute(given, visible);
}

void Products::Commit() { ++commits_; }

void Products::Wait(size_t groups) {
  is_fenced_ = false;
  size_t kept = 0;
  for (Issued& product : issued_) {
    if (product.group + groups >= commits_) {
      issued_[kept++] = product;
    } else if (!product.is_done) {
      Compute(product.given, product.shared);
    }
  }
  issued_.resize(kept);
}

}  // namespace longstream::simt
