// Chooses an algorithm of a library for the products of prefill rows with weights of one shape. The
// choice is the fastest of the algorithms that give a row the same bits whatever rows are beside
// it. The library and the GPU are known here only as an AlgorithmSource.
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_CHOICE_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_CHOICE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longstream::cuda {

// The product out = x W^T, for any number R of rows: out [R, n], x [R, k], W [n, k].
struct ProductShape {
  int64_t n = 0;
  int64_t k = 0;               // k with padding
  int64_t out_stride = 0;      // in elements
  uint32_t out_alignment = 0;  // alignment of every row of out, in bytes

  auto operator<=>(const ProductShape&) const = default;
};

// An algorithm in the library's own encoding, which only the same version of the library
// understands.
using Algorithm = std::array<uint64_t, 8>;

// A library that offers several algorithms for a product.
class AlgorithmSource {
 public:
  AlgorithmSource() = default;
  virtual ~AlgorithmSource() = default;
  AlgorithmSource(const AlgorithmSource&) = delete;
  AlgorithmSource& operator=(const AlgorithmSource&) = delete;

  // At most `most` algorithms for products of `rows` rows. The one that the library recommends is
  // first.
  virtual std::vector<Algorithm> Propose(const ProductShape& shape, int64_t rows, size_t most) = 0;
  // Whether one block computes each sum over k in one sequence, without a split of k or another
  // reduction.
  virtual bool SumsInOneSequence(const Algorithm& algorithm) = 0;
  // Whether `algorithm` computes products of `rows` rows without workspace.
  virtual bool Serves(const ProductShape& shape, int64_t rows, const Algorithm& algorithm) = 0;
  // The seconds of one product, or infinity if they cannot be measured.
  virtual double Seconds(const ProductShape& shape, int64_t rows, const Algorithm& algorithm) = 0;
};

// The numbers of rows at which algorithms are timed: those of a piece of a long prompt, and of the
// rest at its end. The fastest algorithm is the one with the least sum of both times.
inline constexpr int64_t kTimedRows[] = {512, 64};
// The most rows of one call of the library. Longer products are cut: of 16 algorithms that cuBLASLt
// 13.1 proposed on an H200 for a weight of 5120 x 17408, none worked without workspace at 64, 512
// and 2048 rows.
inline constexpr int64_t kMostRows = 512;
// The numbers of rows for which the chosen algorithm must work as well.
inline constexpr int64_t kServedRows[] = {1, 2, 7, 16, 33, 64, 128, 257, kMostRows};
// The number of algorithms that the library may propose for each of kTimedRows.
inline constexpr size_t kMaxProposals = 32;

struct AlgorithmChoice {
  Algorithm algorithm{};
  // false: nothing could be timed, and this is the first algorithm that serves
  bool is_timed = false;
};

// Whether `algorithm` gives a row the same bits whatever rows are beside it, and works at all
// kServedRows.
bool ServesAll(AlgorithmSource& source, const ProductShape& shape, const Algorithm& algorithm);

// Chooses the fastest algorithm that serves; of equally fast ones, the first that was proposed.
// nullopt: none serves.
std::optional<AlgorithmChoice> ChooseAlgorithm(AlgorithmSource& source, const ProductShape& shape);

// Says for a log why no algorithm serves: how many were proposed, how many of them divide sums, and
// at which numbers of rows the others fail.
std::string WhyNoneServes(AlgorithmSource& source, const ProductShape& shape);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_CHOICE_H_
